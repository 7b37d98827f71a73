variable "project" {
  description = "Id of the Google Cloud project."
  type        = string
}

variable "region" {
  description = "Region of the buckets, the registry and the jobs, such as europe-west4."
  type        = string
}

variable "name" {
  description = "Prefix of all names; the buckets are called PROJECT-NAME-artifacts and PROJECT-NAME-serving."
  type        = string
  default     = "tfx-gnn"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "The name must be 3 to 20 lower-case letters, digits and hyphens, and begin with a letter."
  }
}

variable "artifact_days" {
  description = "Days after which artifacts of pipelines are deleted. A run that takes a step from the cache needs the files of that step, so this must be longer than pipelines are started again unchanged."
  type        = number
  default     = 180

  validation {
    condition     = var.artifact_days >= 1
    error_message = "Artifacts must be kept for at least 1 day."
  }
}

variable "serving_kubernetes_account" {
  description = "NAMESPACE/NAME of the Kubernetes service account of the model servers, as in the manifests; empty for none, as while the project has no GKE cluster with Workload Identity."
  type        = string
  default     = "serving/tfx-gnn-serving"

  validation {
    condition     = var.serving_kubernetes_account == "" || can(regex("^[a-z0-9-]+/[a-z0-9-]+$", var.serving_kubernetes_account))
    error_message = "The account must have the form NAMESPACE/NAME, or be empty."
  }
}

variable "pipeline_submitters" {
  description = "Members who may start pipelines under the account of the pipelines, such as group:ml@example.com."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for member in var.pipeline_submitters : can(regex("^(user|group|serviceAccount):", member))])
    error_message = "Each member must begin with user:, group: or serviceAccount:."
  }
}

variable "github_repository" {
  description = "OWNER/NAME of the repository whose main branch pushes images without a key; empty for none."
  type        = string
  default     = ""
}
