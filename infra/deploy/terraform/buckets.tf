# What pipelines write: artifacts under pipelines/, temporary files of Beam under beam/.
resource "google_storage_bucket" "artifacts" {
  name                        = "${var.project}-${var.name}-artifacts"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  lifecycle_rule {
    condition {
      age            = var.artifact_days
      matches_prefix = ["pipelines/"]
    }
    action {
      type = "Delete"
    }
  }

  lifecycle_rule {
    condition {
      age            = 7
      matches_prefix = ["beam/"]
    }
    action {
      type = "Delete"
    }
  }

  depends_on = [google_project_service.used]
}

# Served versions. They are never deleted by age: which one is served is decided elsewhere.
resource "google_storage_bucket" "serving" {
  name                        = "${var.project}-${var.name}-serving"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  # A version that is deleted by mistake can be restored for 30 days.
  versioning {
    enabled = true
  }

  lifecycle_rule {
    condition {
      days_since_noncurrent_time = 30
      with_state                 = "ARCHIVED"
    }
    action {
      type = "Delete"
    }
  }

  depends_on = [google_project_service.used]
}
