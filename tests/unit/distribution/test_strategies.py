"""Strategies by configuration, as far as one device goes."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from tfx_gnn.distribution import strategies
from tfx_gnn.distribution.options import STRATEGIES, StrategyOptions
from tfx_gnn.distribution.strategies import LargeTablePartitioner, make_strategy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "mirored"}, r"`strategy` must be one of \['default', .*; got 'mirored'"),
        ({"devices": ("CPU:0",)}, "`devices` must be empty for strategy 'default'"),
        ({"kind": "one_device", "devices": ("CPU:0", "CPU:1")}, "at most one device"),
        ({"kind": "mirrored", "tpu": "local"}, "`tpu` must be empty for strategy 'mirrored'"),
        ({"num_parameter_partitions": 2}, "got 2 for 'default'"),
        ({"kind": "parameter_server", "num_parameter_partitions": -1}, "must be at least 0"),
    ],
)
def test_options_that_do_not_fit_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        StrategyOptions(**options)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "_DefaultDistributionStrategy"),
        ({"kind": "one_device"}, "OneDeviceStrategy"),
        ({"kind": "one_device", "devices": ("/cpu:0",)}, "OneDeviceStrategy"),
        ({"kind": "mirrored", "devices": ("CPU:0",)}, "MirroredStrategy"),
        ({"kind": "multi_worker_mirrored"}, "CollectiveAllReduceStrategy"),
    ],
)
def test_a_process_alone_gets_its_strategy(options, name, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)

    strategy = make_strategy(StrategyOptions(**options))

    assert type(strategy).__name__ == name
    assert strategy.num_replicas_in_sync == 1


def test_a_kind_that_nothing_makes_is_refused(monkeypatch):
    monkeypatch.setattr(strategies, "STRATEGIES", (*STRATEGIES, "ring"))
    options = StrategyOptions()
    object.__setattr__(options, "kind", "ring")

    with pytest.raises(NotImplementedError, match=r"must make each of \['default', .*'ring'\]; got 'ring'"):
        make_strategy(options)


@pytest.mark.parametrize("devices", [("GPU:7",), ("CPU:0", "CPU:0")])
def test_devices_that_are_not_there_are_named(devices):
    with pytest.raises(ValueError, match=r"must name devices of this machine, each once; got .* among \['CPU:0'"):
        make_strategy(StrategyOptions(kind="mirrored", devices=devices))


def test_a_missing_tpu_is_named():
    with pytest.raises(ValueError, match=r"got 'local': TPUs not found in the cluster.*check-tpu` needs no TPU"):
        make_strategy(StrategyOptions(kind="tpu", tpu="local"))


@pytest.mark.parametrize(
    ("kind", "cluster", "message"),
    [
        ("parameter_server", {}, "must have a chief, workers and tasks of type 'ps'.*; got none"),
        ("parameter_server", {"worker": ["a:1"]}, r"got \{'worker': 1\}"),
        ("parameter_server", {"chief": ["c:1"], "worker": ["a:1"], "ps": ["p:1"]}, "got task 'worker' 0"),
        ("multi_worker_mirrored", {"chief": ["c:1"], "worker": ["a:1"], "ps": ["p:1"]}, "no tasks of type 'ps'.*got 1"),
        ("multi_worker_mirrored", {"worker": ["a:1", "b:1"]}, "before TensorFlow runs its first operation"),
        ("default", {"worker": ["a:1", "b:1"]}, r"must not name other processes for strategy 'default'.*'worker': 2"),
        ("mirrored", {"chief": ["c:1"], "worker": ["a:1"]}, "must not name other processes for strategy 'mirrored'"),
    ],
)
def test_what_is_missing_of_a_cluster_is_named(kind, cluster, message, monkeypatch):
    config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert float(tf.reduce_sum([1.0, 2.0])) == 3.0

    with pytest.raises(ValueError, match=message):
        make_strategy(StrategyOptions(kind=kind))


@pytest.mark.parametrize(
    ("shape", "max_partitions", "expected"),
    [
        ([1024, 256], 2, [2, 1]),
        ([1024, 256], 8, [2, 1]),
        ([1024, 255], 2, [1, 1]),
        ([4096, 256], 3, [3, 1]),
        ([2, 1 << 20], 8, [2, 1]),
        ([64], 2, [1]),
        ([], 2, []),
    ],
)
def test_tables_are_divided_into_parts_of_at_least_131072_numbers(shape, max_partitions, expected):
    assert LargeTablePartitioner(max_partitions)(tf.TensorShape(shape), tf.float32) == expected
