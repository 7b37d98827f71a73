output "root" {
  description = "Folder of a pipeline's artifacts: --root of tfx-gnn run, with the pipeline's name appended."
  value       = "gs://${google_storage_bucket.artifacts.name}/pipelines"
}

output "push_to" {
  description = "Folder of served versions: --push-to, with the model's name appended."
  value       = "gs://${google_storage_bucket.serving.name}"
}

output "image" {
  description = "Prefix of images: --image, with /NAME:TAG appended."
  value       = "${google_artifact_registry_repository.images.location}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.repository_id}"
}

output "beam_arg" {
  description = "Arguments of Dataflow jobs: each one is a --beam-arg. Add --sdk_container_image and --sdk_location=container."
  value = [
    "--runner=DataflowRunner",
    "--project=${var.project}",
    "--region=${var.region}",
    "--temp_location=gs://${google_storage_bucket.artifacts.name}/beam/temp",
    "--staging_location=gs://${google_storage_bucket.artifacts.name}/beam/staging",
    "--service_account_email=${google_service_account.workers.email}",
  ]
}

output "pipelines_service_account" {
  description = "Account that a pipeline job on Vertex AI runs as: service_account of PipelineJob.submit."
  value       = google_service_account.pipelines.email
}

output "serving_service_account" {
  description = "Account of model servers: the annotation iam.gke.io/gcp-service-account in the manifests, or --service-account of an endpoint."
  value       = google_service_account.serving.email
}

output "ci_service_account" {
  description = "Account that pushes images."
  value       = google_service_account.ci.email
}

output "ci_workload_identity_provider" {
  description = "Provider that GitHub Actions logs in with; null without github_repository."
  value       = one(google_iam_workload_identity_pool_provider.github[*].name)
}
