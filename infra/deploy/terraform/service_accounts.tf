resource "google_service_account" "pipelines" {
  account_id   = "${var.name}-pipelines"
  display_name = "Runs the tasks of pipelines"

  depends_on = [google_project_service.used]
}

resource "google_service_account" "workers" {
  account_id   = "${var.name}-workers"
  display_name = "Runs the workers of Dataflow jobs"

  depends_on = [google_project_service.used]
}

resource "google_service_account" "serving" {
  account_id   = "${var.name}-serving"
  display_name = "Reads served models"

  depends_on = [google_project_service.used]
}

resource "google_service_account" "ci" {
  account_id   = "${var.name}-ci"
  display_name = "Pushes images"

  depends_on = [google_project_service.used]
}

locals {
  pipelines = "serviceAccount:${google_service_account.pipelines.email}"
  workers   = "serviceAccount:${google_service_account.workers.email}"
  serving   = "serviceAccount:${google_service_account.serving.email}"
  ci        = "serviceAccount:${google_service_account.ci.email}"

  # Roles on a single bucket.
  bucket_roles = {
    # Tasks read and write artifacts.
    pipelines_artifacts_objects = {
      bucket = google_storage_bucket.artifacts.name, role = "roles/storage.objectUser", member = local.pipelines
    }
    # Before they write, TensorFlow and Beam ask whether the bucket exists.
    pipelines_artifacts_bucket = {
      bucket = google_storage_bucket.artifacts.name, role = "roles/storage.legacyBucketReader", member = local.pipelines
    }
    # A push writes a version, reads it back, and removes its note.
    pipelines_serving_objects = {
      bucket = google_storage_bucket.serving.name, role = "roles/storage.objectUser", member = local.pipelines
    }
    pipelines_serving_bucket = {
      bucket = google_storage_bucket.serving.name, role = "roles/storage.legacyBucketReader", member = local.pipelines
    }
    # Workers read and write the same artifacts, but no served model.
    workers_artifacts_objects = {
      bucket = google_storage_bucket.artifacts.name, role = "roles/storage.objectUser", member = local.workers
    }
    workers_artifacts_bucket = {
      bucket = google_storage_bucket.artifacts.name, role = "roles/storage.legacyBucketReader", member = local.workers
    }
    # A server lists and reads versions; it sees nothing else.
    serving_serving_objects = {
      bucket = google_storage_bucket.serving.name, role = "roles/storage.objectViewer", member = local.serving
    }
  }

  # Roles that exist only for a whole project.
  project_roles = {
    # Vertex AI demands it of the account that a pipeline runs as.
    pipelines_vertex = { role = "roles/aiplatform.user", member = local.pipelines }
    # Tasks with --beam-arg=--runner=DataflowRunner start jobs and watch them.
    pipelines_dataflow = { role = "roles/dataflow.developer", member = local.pipelines }
    # Workers fetch their work and report it.
    workers_dataflow = { role = "roles/dataflow.worker", member = local.workers }
  }

  # Roles on the repository of images.
  image_roles = {
    pipelines = { role = "roles/artifactregistry.reader", member = local.pipelines }
    workers   = { role = "roles/artifactregistry.reader", member = local.workers }
    ci        = { role = "roles/artifactregistry.writer", member = local.ci }
  }
}

resource "google_storage_bucket_iam_member" "roles" {
  for_each = local.bucket_roles

  bucket = each.value.bucket
  role   = each.value.role
  member = each.value.member
}

resource "google_project_iam_member" "roles" {
  for_each = local.project_roles

  project = var.project
  role    = each.value.role
  member  = each.value.member

  depends_on = [google_project_service.used]
}

resource "google_artifact_registry_repository_iam_member" "roles" {
  for_each = local.image_roles

  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = each.value.role
  member     = each.value.member
}

# Dataflow lets an account start workers under another one only with this.
resource "google_service_account_iam_member" "pipelines_start_workers" {
  service_account_id = google_service_account.workers.name
  role               = "roles/iam.serviceAccountUser"
  member             = local.pipelines
}

# A task starts a custom job that runs as the account of the task; Vertex AI asks for this although it is the same one.
resource "google_service_account_iam_member" "pipelines_start_custom_jobs" {
  service_account_id = google_service_account.pipelines.name
  role               = "roles/iam.serviceAccountUser"
  member             = local.pipelines
}

resource "google_service_account_iam_member" "submitters_start_pipelines" {
  for_each = toset(var.pipeline_submitters)

  service_account_id = google_service_account.pipelines.name
  role               = "roles/iam.serviceAccountUser"
  member             = each.value
}

# Without it, they could act as the account of the pipelines, but start no pipeline.
resource "google_project_iam_member" "submitters_use_vertex" {
  for_each = toset(var.pipeline_submitters)

  project = var.project
  role    = "roles/aiplatform.user"
  member  = each.value

  depends_on = [google_project_service.used]
}

# Pods of this Kubernetes account are the serving account, without a key.
resource "google_service_account_iam_member" "serving_pods" {
  # The project has the pool of this name once it has a cluster with Workload Identity.
  count = var.serving_kubernetes_account == "" ? 0 : 1

  service_account_id = google_service_account.serving.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.project}.svc.id.goog[${var.serving_kubernetes_account}]"
}
