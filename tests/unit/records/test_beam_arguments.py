import re
from pathlib import Path

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

PAGE = Path(__file__).resolve().parents[3] / "docs" / "beam_at_scale.md"


def settings(runner):
    """The arguments that the page gives for a runner."""
    blocks = re.findall(r"```\n(--runner=.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(f"--runner={runner}\n")]
    return block.split()


def test_settings_of_dataflow_are_read():
    options = PipelineOptions(read_beam_args(settings("DataflowRunner")))

    cloud, workers = options.view_as(GoogleCloudOptions), options.view_as(WorkerOptions)
    assert options.view_as(StandardOptions).runner == "DataflowRunner"
    assert (cloud.project, cloud.region) == ("PROJECT", "REGION")
    assert (cloud.temp_location, cloud.staging_location) == ("gs://BUCKET/beam/temp", "gs://BUCKET/beam/staging")
    assert cloud.service_account_email == "tfx-gnn-workers@PROJECT.iam.gserviceaccount.com"
    assert workers.sdk_container_image == "REGION-docker.pkg.dev/PROJECT/tfx-gnn/my_graph:TAG"
    assert (workers.machine_type, workers.max_num_workers, workers.disk_size_gb) == ("n2-highmem-8", 64, 100)
    assert workers.autoscaling_algorithm == "THROUGHPUT_BASED"
    assert (workers.use_public_ips, workers.subnetwork) == (False, "regions/REGION/subnetworks/NAME")
    assert options.view_as(SetupOptions).sdk_location == "container"
    assert options.view_as(DebugOptions).number_of_worker_harness_threads == 8


def test_settings_of_flink_are_read():
    options = PipelineOptions(read_beam_args(settings("FlinkRunner")))

    flink, environment = options.view_as(FlinkRunnerOptions), options.view_as(PortableOptions)
    assert (flink.flink_master, flink.flink_submit_uber_jar) == ("flink-jobmanager:8081", True)
    assert flink.parallelism == 16
    assert (environment.environment_type, environment.environment_config) == ("EXTERNAL", "localhost:50000")


def test_settings_of_spark_are_read():
    options = PipelineOptions(read_beam_args(settings("SparkRunner")))

    spark = options.view_as(SparkRunnerOptions)
    assert (spark.spark_master_url, spark.spark_submit_uber_jar) == ("spark://spark-master:7077", True)
    assert spark.spark_rest_url == "http://spark-master:6066"
    assert options.view_as(PortableOptions).environment_type == "EXTERNAL"


def test_settings_of_a_job_service_are_read():
    options = PipelineOptions(read_beam_args(settings("PortableRunner"))).view_as(PortableOptions)

    assert (options.job_endpoint, options.job_server_timeout) == ("HOST:PORT", 86400)
    assert options.environment_config == "HOST:50000"


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


@pytest.mark.parametrize("runner", ["a.b.C", "os.path.join", "apache_beam.runners.direct.Absent", "..."])
def test_path_that_leads_to_no_runner_is_refused(runner):
    with pytest.raises(ValueError, match="`beam_args` must name a runner of Beam; got --runner=" + re.escape(runner)):
        read_beam_args([f"--runner={runner}"])


def test_hint_for_help_is_not_help():
    with pytest.raises(ValueError, match="got '--help'") as refused:
        read_beam_args(["--help"])

    assert "Did you mean --help" not in str(refused.value)
