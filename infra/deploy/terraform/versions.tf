terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 5.30, < 8"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

locals {
  services = [
    "aiplatform.googleapis.com",
    "artifactregistry.googleapis.com",
    # For roles on the project.
    "cloudresourcemanager.googleapis.com",
    # For the workers of Dataflow.
    "compute.googleapis.com",
    "dataflow.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "storage.googleapis.com",
  ]
}

resource "google_project_service" "used" {
  for_each = toset(local.services)

  project = var.project
  service = each.value
  # Others in the project may use it.
  disable_on_destroy = false
}
