import pytest

from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan, copy_recorded_plan, read_recorded_plan
from tfx_gnn.sampling.plan.split_plan import SplitPlan

RECORDED = RecordedPlan(
    plan=SamplingPlan(
        seed_node_set="user",
        hops=(Hop(edge_set="buys", fan_out=2), Hop(edge_set="buys", strategy="full", direction="backward", name="b")),
        label_features=("color",),
        splits=SplitPlan(column="split"),
        temporal=Temporal(seed_time="joined", edge_times={"buys": "at"}),
    ),
    sampling_seed=2**63 - 1,
)


def test_plan_is_read_as_it_was_written_also_from_a_copy(tmp_path):
    RECORDED.write(str(tmp_path / "plan.json"))
    copy_recorded_plan(str(tmp_path / "plan.json"), str(tmp_path / "new" / "plan.json"))

    assert read_recorded_plan(str(tmp_path / "new" / "plan.json")) == RECORDED


def test_file_may_be_missing(tmp_path):
    copy_recorded_plan(str(tmp_path / "plan.json"), str(tmp_path / "new" / "plan.json"))

    assert read_recorded_plan(str(tmp_path / "new" / "plan.json")) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format_version": 2}', "must be a sampling plan of format version 1; got 2"),
        ("[]", "must be a sampling plan of format version 1; got None"),
        ('{"format_version": 1, "sampling_seed": 0}', "`plan` must be given"),
        ('{"format_version": 1, "plan": {"seed_node_set": 3}, "sampling_seed": 0}', "`plan.seed_node_set` must be"),
    ],
)
def test_damaged_file_is_refused(tmp_path, content, message):
    (tmp_path / "plan.json").write_text(content)

    with pytest.raises(ValueError, match=message):
        read_recorded_plan(str(tmp_path / "plan.json"))
