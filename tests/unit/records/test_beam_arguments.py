import pytest
from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    SparkRunnerOptions,
    StandardOptions,
    WorkerOptions,
)

from tfx_gnn.records.beam_arguments import read_beam_args

DATAFLOW = [
    "--runner=DataflowRunner",
    "--project=my-project",
    "--region=europe-west4",
    "--temp_location=gs://bucket/beam/temp",
    "--staging_location=gs://bucket/beam/staging",
    "--sdk_container_image=europe-west4-docker.pkg.dev/my-project/tfx-gnn/my_graph:1",
    "--sdk_location=container",
    "--service_account_email=tfx-gnn-workers@my-project.iam.gserviceaccount.com",
    "--machine_type=n2-highmem-8",
    "--num_workers=4",
    "--max_num_workers=64",
    "--autoscaling_algorithm=THROUGHPUT_BASED",
    "--disk_size_gb=100",
    "--worker_disk_type=pd-ssd",
    "--no_use_public_ips",
    "--subnetwork=regions/europe-west4/subnetworks/beam",
    "--dataflow_service_options=enable_prime",
    "--experiments=shuffle_mode=service",
    "--number_of_worker_harness_threads=8",
]
FLINK = [
    "--runner=FlinkRunner",
    "--flink_master=flink-jobmanager:8081",
    "--flink_submit_uber_jar",
    "--parallelism=16",
    "--max_parallelism=128",
    "--environment_type=EXTERNAL",
    "--environment_config=localhost:50000",
]
SPARK = [
    "--runner=SparkRunner",
    "--spark_master_url=spark://spark-master:7077",
    "--spark_submit_uber_jar",
    "--spark_rest_url=http://spark-master:6066",
    "--environment_type=DOCKER",
    "--environment_config=europe-west4-docker.pkg.dev/my-project/tfx-gnn/my_graph:1",
]


def test_settings_of_dataflow_are_read():
    options = PipelineOptions(read_beam_args(DATAFLOW))

    cloud, workers = options.view_as(GoogleCloudOptions), options.view_as(WorkerOptions)
    assert options.view_as(StandardOptions).runner == "DataflowRunner"
    assert (cloud.project, cloud.region) == ("my-project", "europe-west4")
    assert (cloud.temp_location, cloud.staging_location) == ("gs://bucket/beam/temp", "gs://bucket/beam/staging")
    assert cloud.service_account_email == "tfx-gnn-workers@my-project.iam.gserviceaccount.com"
    assert cloud.dataflow_service_options == ["enable_prime"]
    assert workers.sdk_container_image == "europe-west4-docker.pkg.dev/my-project/tfx-gnn/my_graph:1"
    assert (workers.machine_type, workers.num_workers, workers.max_num_workers) == ("n2-highmem-8", 4, 64)
    assert workers.autoscaling_algorithm == "THROUGHPUT_BASED"
    assert (workers.disk_size_gb, workers.disk_type) == (100, "pd-ssd")
    assert (workers.use_public_ips, workers.subnetwork) == (False, "regions/europe-west4/subnetworks/beam")
    assert options.view_as(SetupOptions).sdk_location == "container"
    debug = options.view_as(DebugOptions)
    assert (debug.number_of_worker_harness_threads, debug.experiments) == (8, ["shuffle_mode=service"])


def test_settings_of_flink_are_read():
    options = PipelineOptions(read_beam_args(FLINK))

    flink, environment = options.view_as(FlinkRunnerOptions), options.view_as(PortableOptions)
    assert (flink.flink_master, flink.flink_submit_uber_jar) == ("flink-jobmanager:8081", True)
    assert (flink.parallelism, flink.max_parallelism) == (16, 128)
    assert (environment.environment_type, environment.environment_config) == ("EXTERNAL", "localhost:50000")


def test_settings_of_spark_are_read():
    options = PipelineOptions(read_beam_args(SPARK))

    spark = options.view_as(SparkRunnerOptions)
    assert (spark.spark_master_url, spark.spark_submit_uber_jar) == ("spark://spark-master:7077", True)
    assert spark.spark_rest_url == "http://spark-master:6066"
    assert options.view_as(PortableOptions).environment_type == "DOCKER"


def test_options_of_the_job_server_are_passed_on():
    args = read_beam_args(["--runner_option=checkpointing_interval=60000", "--runner=FlinkRunner"])

    assert args == ["--runner=FlinkRunner", "--checkpointing_interval=60000"]


def test_a_value_may_be_an_argument_of_its_own():
    assert read_beam_args(["--region", "europe-west4"]) == ["--region", "europe-west4"]


@pytest.mark.parametrize(
    ("arg", "message"),
    [
        ("--regoin=europe-west4", r"got '--regoin=europe-west4'\. Did you mean --region\?"),
        ("--workers_machine_type=n1", r"Did you mean --worker_machine_type\?"),
        ("--zzzz", r"got '--zzzz'\. Write an option that only the runner's job server knows as --runner_option=NAME"),
        ("--runner DataflowRunner", r"Write --runner=DataflowRunner\."),
        ("runner=DataflowRunner", r"Write --runner=DataflowRunner\."),
        ("-region=x", r"Write --region=x\."),
        ("--checkpointing_interval=60000", r"--runner_option=NAME=VALUE"),
        ("--help", "got '--help'"),
        ("--", "got '--'"),
        ("", "got ''"),
        ("Größe\n=3", "got 'Größe"),
        ("--num_workers=many", r"values that Beam takes; got argument --num_workers: invalid int value: 'many'"),
        ("--autoscaling_algorithm=FAST", "invalid choice: 'FAST'"),
        ("--direct_running_mode=in-memory", "invalid choice"),
        ("--streaming=false", "ignored explicit argument 'false'"),
        ("--region", "expected one argument"),
        ("--runner=DataflowRuner", r"got --runner=DataflowRuner\. Unexpected pipeline runner"),
        ("--runner=", r"got --runner=\. "),
        ("--runner_option=interval", "must have the form --runner_option=NAME=VALUE"),
        ("--runner_option==3", "must have the form"),
    ],
)
def test_what_beam_would_ignore_or_end_the_process_for_is_refused(arg, message):
    with pytest.raises(ValueError, match=message):
        read_beam_args(["--job_name=x", arg])
