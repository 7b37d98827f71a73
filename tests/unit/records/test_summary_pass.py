import pytest
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

from tfx_gnn.records.summary_pass import make_pipeline


@pytest.mark.parametrize(
    ("args", "runner", "mode"),
    [
        ([], "DirectRunner", "in_memory"),
        (["--direct_num_workers=2"], "DirectRunner", "in_memory"),
        (["--direct_running_mode=multi_threading"], "DirectRunner", "multi_threading"),
        (["--runner=DirectRunner", "--direct_running_mode=multi_processing"], "DirectRunner", "multi_processing"),
        (["--runner=FnApiRunner"], "FnApiRunner", "in_memory"),
    ],
)
def test_a_pipeline_stays_in_this_process_unless_told_otherwise(args, runner, mode):
    options = make_pipeline(args).options

    assert options.view_as(StandardOptions).runner == runner
    assert options.view_as(DirectOptions).direct_running_mode == mode


def test_given_arguments_are_left_alone():
    args = ["--job_name=x"]

    make_pipeline(args)

    assert args == ["--job_name=x"]


def test_arguments_that_the_runner_lacks_are_told_in_one_line():
    with pytest.raises(ValueError, match=r"^`beam_args` must be complete.*Missing required option: project\.[^\n]*$"):
        make_pipeline(["--runner=DataflowRunner"])
