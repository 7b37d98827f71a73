"""Runs compiled pipelines on this machine, task by task, as Kubeflow Pipelines or Vertex AI would.

What is imitated of Kubeflow stands in its sources: repository kubeflow/pipelines, folder backend/src/v2, at the commit
that is given with each function.

Inputs
    A task gets the artifacts of finished tasks with the name, URI and metadata of the metadata store, and with an empty
    `instanceSchema`: metadata/client.go, `OutputArtifact.ToRuntimeArtifact`; line 1144 leaves the schema out
    (7b70c7b95).
    Numbers in metadata come back as floats, booleans as numbers, a list as {"list": ...}, an object as {"struct": ...};
    null fails the task: metadata/converter.go, `structValueToMLMDValue` and `toRuntimeArtifact`.
Outputs
    The URI is ROOT/TASK/RANDOM/OUTPUT, and each task has one more output, `executor-logs`, of type system.Artifact:
    driver/driver.go, `provisionOutputs`, with publish_logs, which is the default.
    The answer is a local file: component/launcher_v2.go, `OutputMetadataFilepath` (0045064063). Its URIs and metadata
    count: `mergeRuntimeArtifacts`. An output that was not written is a warning: `uploadOutputArtifacts`.
Artifacts
    They are copied from gs://, minio:// and s3:// into /gcs/, /minio/ and /s3/ before the command starts, and back
    after it succeeded. The folder above each output exists, the output itself does not: component/launcher_v2.go,
    `LocalPathForURI`, `downloadArtifacts`, `prepareOutputFolders`, `uploadOutputArtifacts` (0045064063).
    Only files are copied, not empty folders: objectstore/object_store.go, `UploadBlob` and `DownloadBlob`.
Commands
    `{{$}}` is replaced by the ExecutorInput message as JSON: component/launcher_v2.go, `getPlaceholders` (0045064063).
Cache
    The key has the names of input artifacts, the values of parameters, the types and metadata of outputs without their
    URIs, the image and the command. Only tasks of the same pipeline count: cacheutils/cache.go, `GenerateCacheKey` and
    `GetExecutionCache` (0139b8da32).

Of Vertex AI, what TFX's own entrypoint says of it is imitated: inputs have their types, the answer is an object beside
the outputs, and containers read and write `gs://` themselves.
"""
