"""The plan of a pipeline: ranges, extrapolation, money, the verdict on memory, and a sample that really runs."""

from __future__ import annotations

import dataclasses

import pytest

from tfx_gnn.components.latest_blessed_model_resolver.options import LatestBlessedModelResolverOptions
from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn_pipelines.planning.earlier_runs import ActualStep
from tfx_gnn_pipelines.planning.machines import MachinePrice, Prices, StepMachines, machines_of, read_prices
from tfx_gnn_pipelines.planning.measurements import SAMPLE, STEPS, planned_steps, with_upstream
from tfx_gnn_pipelines.planning.pipeline_plan import PipelinePlan, StepPlan, TrainingPlan
from tfx_gnn_pipelines.planning.plan_table import print_comparison, print_plan
from tfx_gnn_pipelines.planning.planner import describe_load, measure_in_child, plan_pipeline
from tfx_gnn_pipelines.planning.quantities import (
    Point,
    Quantity,
    exactly,
    extrapolate_bytes,
    extrapolate_memory,
    extrapolate_seconds,
    largest,
    total,
)
from tfx_gnn_pipelines.planning.sample_run import choose_sample, measure_sample
from tfx_gnn_pipelines.resources import Accelerator, ComponentResources, CustomJob, Resources

MIB = 2**20


def _point(num_examples, cost):
    return Point(num_examples=num_examples, cost=cost)


def test_ranges_add_and_the_less_certain_origin_wins():
    first = Quantity(value=2, low=1, high=4, origin="measured")

    found = total([first, exactly(3)]).times(2)

    assert (found.value, found.low, found.high, found.origin) == (10, 8, 14, "measured")


def test_a_value_outside_of_its_range_is_refused():
    with pytest.raises(ValueError, match="`value` must lie in its range"):
        Quantity(value=5, low=1, high=4, origin="measured")


def test_seconds_of_the_whole_are_measured():
    found = extrapolate_seconds(_point(100, 4.0), [], 100)

    assert (found.value, found.origin) == (4.0, "measured")


def test_two_sizes_part_what_happens_once_from_what_an_example_costs():
    # 1 s + 0.01 s an example, and 3 s of imports in the first pass.
    found = extrapolate_seconds(_point(100, 5.0), [_point(400, 5.0), _point(100, 2.0)], 1100)

    assert found.value == pytest.approx(15.0)
    assert found.low < 15.0 < found.high
    assert found.origin == "extrapolated"


def test_one_size_gives_a_range_from_nothing_to_its_whole_share():
    # Most likely, what happens once took as long as 5,000 examples.
    found = extrapolate_seconds(_point(100, 2.0), [], 200)

    assert (found.low, found.value, found.high) == pytest.approx((1.7, 2 + 100 * 2 / 5100, 4.6))


def test_one_size_costs_less_for_fewer_examples_too():
    found = extrapolate_seconds(_point(200, 4.0), [], 100)

    assert (found.low, found.value, found.high) == pytest.approx((1.7, 4 - 100 * 4 / 5200, 4.6))


def test_bytes_of_one_size_stay_or_grow_in_proportion():
    more, fewer = (extrapolate_bytes([_point(100, 1000)], count) for count in (200, 50))

    assert (more.low, more.value, more.high) == pytest.approx((1000, 2e6**0.5, 2000))
    assert (fewer.low, fewer.value, fewer.high) == pytest.approx((500, 5e5**0.5, 1000))


def test_bytes_follow_the_line_through_two_sizes():
    found = extrapolate_bytes([_point(100, 1100), _point(400, 4100)], 1000)

    assert (found.value, found.high) == (10100, 10100)


def test_memory_that_does_not_grow_stays_and_memory_that_grows_is_extrapolated():
    first = _point(100, 500 * MIB)

    flat = extrapolate_memory(first, [_point(400, 101 * MIB), _point(100, 100 * MIB)], 1000)
    growing = extrapolate_memory(first, [_point(400, 400 * MIB), _point(100, 100 * MIB)], 1000)
    unknown = extrapolate_memory(first, [], 1000)

    assert (flat.value, flat.high) == (500 * MIB, 503 * MIB)
    assert growing.value == 1400 * MIB
    assert (unknown.value, unknown.high) == (500 * MIB, 1000 * MIB)


def test_the_sample_is_all_of_little_data_and_a_few_batches_of_much():
    few = {"train": 400, "val": 50}
    many = {"train": 80_000, "val": 10_000, "test": 10_000}

    assert choose_sample(few, train_split="train", batch_size=32) == few
    assert choose_sample(many, train_split="train", batch_size=64) == {"train": 256, "val": 16, "test": 16}


PRICES = Prices(
    currency="EUR",
    machines={"n1-highmem-8": MachinePrice(per_hour=0.5, spot_per_hour=0.1, memory_gb=52)},
    accelerators={"NVIDIA_TESLA_T4": 0.3},
    cpu_per_hour=0.03,
    memory_gb_per_hour=0.004,
)


@pytest.mark.parametrize(
    ("given", "per_hour", "memory_gb"),
    [
        (ComponentResources(cpu=4, memory_gb=10), 0.16, 10),
        (ComponentResources(custom_job=CustomJob(machine_type="n1-highmem-8", replicas=3)), 1.5, 52),
        (
            ComponentResources(
                custom_job=CustomJob(machine_type="n1-highmem-8", replicas=2, spot=True),
                accelerator=Accelerator(kind="NVIDIA_TESLA_T4", count=2),
            ),
            1.4,
            52,
        ),
    ],
    ids=["container", "custom job", "spot with accelerators"],
)
def test_the_price_of_an_hour_counts_machines_and_accelerators(given, per_hour, memory_gb):
    found = machines_of("GraphTrainer", Resources(components={"GraphTrainer": given}), PRICES)

    assert found.per_hour == pytest.approx(per_hour)
    assert found.memory_bytes == memory_gb * 10**9


def test_a_price_that_is_needed_must_be_given():
    with pytest.raises(ValueError, match=r"`default_per_hour` must be given in the file of --prices.*GraphPusher"):
        machines_of("GraphPusher", Resources(), PRICES)


def test_a_wrong_price_is_refused_with_its_file(tmp_path):
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\ncpu_per_hour: -1\n")

    with pytest.raises(ValueError, match=r"prices\.yaml.*`cpu_per_hour` must be at least 0"):
        read_prices(str(file))


def _plan(memory_gb):
    machines = StepMachines(name="n1-highmem-8", count=2, memory_bytes=memory_gb * 2**30, per_hour=1.0)
    seconds = Quantity(value=7200, low=3600, high=10800, origin="extrapolated")
    memory = Quantity(value=8 * 2**30, low=8 * 2**30, high=9 * 2**30, origin="extrapolated")
    steps = [
        StepPlan(
            step="GraphTrainer",
            num_examples=exactly(1000),
            seconds=seconds,
            disk=exactly(2048, "measured"),
            memory=memory,
            machines=machines,
            source="runs/shop@2",
        ),
        StepPlan(
            step="GraphPusher",
            num_examples=None,
            seconds=exactly(0.0, "measured"),
            disk=exactly(0, "measured"),
            memory=exactly(0, "measured"),
            machines=machines,
            source=SAMPLE,
        ),
    ]
    one = exactly(1.0, "measured")
    training = TrainingPlan(
        num_epochs=one, steps_per_epoch=one, num_steps=one, seconds_per_step=one, batch_bytes=0, num_parameters=7
    )
    return PipelinePlan(
        name="shop",
        num_examples={"train": 900, "val": 100},
        sample={"train": 90, "val": 10},
        steps=tuple(steps),
        training=training,
        currency="EUR",
        is_remote=True,
        notes=("Beam's steps were measured in one process.",),
        seconds=12.0,
    )


def test_a_plan_prints_ranges_machine_hours_and_money_on_80_columns(capsys):
    print_plan(_plan(16), PlainConsole(width=80))

    text = capsys.readouterr().out
    for part in (
        "~2 h 0 min",
        "4.00 (2.00-6.00) machine-hours",
        "2.00 (1.00-3.00) EUR",
        "8 GiB (8-9 GiB)",
        "measured by the run runs/shop@2: GraphTrainer",
        "measured on a sample of 100 in 12 s: GraphPusher",
        "1,000",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[-1] == "enough memory"


def test_a_narrow_terminal_cuts_no_figure(capsys):
    print_plan(_plan(16), PlainConsole(width=66))

    table = capsys.readouterr().out.partition("measured on")[2].partition("others measured")[0]
    assert "\u2026" not in table
    assert "1-3 h 0 min" in table
    assert max(map(len, table.splitlines())) <= 66


def test_a_step_that_needs_more_memory_than_its_machine_has_fails_the_plan(capsys):
    plan = _plan(4)

    print_plan(plan, PlainConsole(width=80))

    text = capsys.readouterr().out
    assert "GraphTrainer needs 8.0 GiB of memory; n1-highmem-8 has 4.0 GiB" in text
    assert text.splitlines()[-1] == "NOT enough memory"
    assert not plan.to_json()["passed"]


def test_a_run_stands_beside_the_plan(capsys):
    actual = [ActualStep(step="GraphTrainer", state="complete", seconds=90.0, disk=4096, memory=2**30)]

    print_comparison(_plan(16), actual, "runs/shop", PlainConsole(width=80))

    text = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "against runs/shop" in text
    assert "GraphTrainer time 2 h 0 min 1 min 30 s 1-3 h 0 min, missed" in lines
    assert "disk 2 KiB 4 KiB" in lines
    assert max(map(len, text.splitlines())) <= 80


def test_the_largest_memory_keeps_the_largest_ends():
    found = largest([exactly(3), Quantity(value=2, low=1, high=5, origin="measured")])

    assert (found.value, found.high) == (3, 5)


def test_the_steps_are_those_of_the_pipeline(tiny_config):
    from tfx_gnn_pipelines.assembly import component_ids

    resolving = dataclasses.replace(tiny_config, latest_blessed_model_resolver=LatestBlessedModelResolverOptions())

    for config in (tiny_config, resolving):
        assert component_ids(config) == planned_steps(config)
    assert set(planned_steps(resolving)) == set(STEPS) - {"GraphTuner"}


def test_a_busy_machine_is_named():
    assert describe_load(2.0, 2) == ""
    assert "(load 9.8 on 2 processors), so measured times are longer" in describe_load(9.79, 2)


def test_a_step_needs_all_that_is_upstream_of_it():
    assert with_upstream({"GraphSchemaGen"}) == {"SubgraphExampleGen", "GraphSchemaGen"}
    assert "GraphExampleValidator" not in with_upstream({"GraphPusher"})


def test_remote_tables_are_refused_with_what_to_give(tiny_config):
    config = dataclasses.replace(tiny_config, tables_dir="gs://bucket/tables")

    with pytest.raises(ValueError, match=r"`tables` must be on this machine.*Give --tables a folder"):
        plan_pipeline(config, seconds=1.0)


def test_a_sample_runs_every_step_and_counts_every_example(tiny_config, tmp_path):
    # Requests from several threads, in a process of its own, would take longest.
    pusher = dataclasses.replace(tiny_config.graph_pusher, num_verification_threads=0)
    resolver = LatestBlessedModelResolverOptions(must_exist=True)
    config = dataclasses.replace(tiny_config, graph_pusher=pusher, latest_blessed_model_resolver=resolver)

    found = measure_sample(config, str(tmp_path), seconds=60.0)

    measured = found.measured
    assert {step.step for step in measured.steps} >= set(STEPS) - {"GraphTuner"}
    assert measured.num_examples == found.counted
    assert measured.training is not None
    assert measured.training.steps_per_epoch >= 1
    assert all(step.peak_bytes > 0 for step in measured.steps)


def test_a_sample_in_a_process_of_its_own_runs_no_more_than_what_is_asked_for(tiny_config):
    seen = []

    found = measure_in_child(tiny_config, seconds=60.0, steps=["GraphSchemaGen"], say=seen.append)

    assert "importing TFX" in seen
    assert [step.step for step in found.measured.steps] == ["reading tables", "SubgraphExampleGen", "GraphSchemaGen"]
    assert found.measured.training is None
