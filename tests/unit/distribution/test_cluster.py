"""The role of a process in a cluster, and what its workers do together."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from tfx_gnn.distribution.cluster import barrier_before_exit, cluster_role, is_true_on_any_worker, serve

PEERS = ["a:1", "b:1"]
_PROGRAM = """
import os
import pathlib
import sys
import time
import tensorflow as tf
from tfx_gnn.distribution.cluster import is_true_on_any_worker, barrier_before_exit, barrier

if __name__ == "__main__":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = strategy.cluster_resolver.task_id
    one = is_true_on_any_worker(strategy, is_true_here=index == 1)
    none = is_true_on_any_worker(strategy, is_true_here=False)
    print(one, none, flush=True)
    if len(sys.argv) == 2:
        # Worker 1 is killed once worker 0 has said here that it owes it nothing.
        has_said = pathlib.Path(sys.argv[1])
        if index == 1:
            while not has_said.exists():
                time.sleep(0.01)
            os._exit(0)
        has_said.touch()
        try:
            barrier(strategy)
        except tf.errors.OpError:
            print("alone", flush=True)
    barrier_before_exit(strategy)
    print("left")
"""


def environ(cluster, task_type, index):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": task_type, "index": index}})}


@pytest.mark.parametrize("text", [None, "", "{}", '{"cluster": {}}', '{"environment": "cloud"}'])
def test_without_a_cluster_a_process_is_alone_and_its_own_chief(text):
    role = cluster_role({} if text is None else {"TF_CONFIG": text})

    assert (role.task_type, role.task_id, role.num_workers, role.num_ps) == ("chief", 0, 1, 0)
    assert role.is_chief
    assert role.is_alone
    assert not role.serves


@pytest.mark.parametrize(
    ("cluster", "task", "num_workers", "is_chief", "serves"),
    [
        ({"worker": PEERS}, ("worker", 0), 2, True, False),
        ({"worker": PEERS}, ("worker", 1), 2, False, False),
        ({"chief": ["c:1"], "worker": PEERS}, ("chief", 0), 3, True, False),
        ({"chief": ["c:1"], "worker": PEERS}, ("worker", 0), 3, False, False),
        ({"chief": ["c:1"], "worker": PEERS, "ps": ["p:1"]}, ("chief", 0), 2, True, False),
        ({"chief": ["c:1"], "worker": PEERS, "ps": ["p:1"]}, ("worker", 0), 2, False, True),
        ({"chief": ["c:1"], "worker": PEERS, "ps": ["p:1"]}, ("ps", 0), 2, False, True),
    ],
)
def test_one_process_is_chief_and_those_that_a_coordinator_uses_serve(cluster, task, num_workers, is_chief, serves):
    role = cluster_role(environ(cluster, *task))

    assert (role.num_workers, role.is_chief, role.serves) == (num_workers, is_chief, serves)
    assert (role.task_type, role.task_id) == task
    assert not role.is_alone


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TF_CONFIG": "{"}, "`TF_CONFIG` must be JSON with 'cluster' and 'task'; got '{'"),
        ({"TF_CONFIG": "[]"}, "must be a JSON object"),
        ({"TF_CONFIG": '{"cluster": {}, "task": ["worker", 0]}'}, "with the objects 'cluster' and 'task'"),
        (environ({"worker": "a:1"}, "worker", 0), "must have a list of addresses, .*; got 'a:1' for 'worker'"),
        (environ({"worker": PEERS}, "worker", "first"), "type='worker', index='first'"),
        (environ({"worker": PEERS}, "worker", None), "type='worker', index=None"),
        (environ({"evaluator": ["e:1"]}, "evaluator", 0), r"only; got \['evaluator'\]"),
        (environ({"worker": PEERS}, "worker", 2), r"index=2 for numbers of tasks \{'worker': 2\}"),
        (environ({"worker": PEERS}, "chief", 0), "type='chief', index=0"),
        (environ({"chief": PEERS}, "chief", 0), "must have one chief; got 2"),
        (environ({"worker": PEERS, "ps": ["p:1"]}, "worker", 0), "got 0 chiefs and 2 workers for 1 of type 'ps'"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(variables, message):
    with pytest.raises(ValueError, match=message):
        cluster_role(variables)


def test_only_who_a_coordinator_uses_serves():
    with pytest.raises(ValueError, match="got task_type='chief', num_ps=0"):
        serve(cluster_role({}))


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("agreement") / "agreeing_workers.py"
    path.write_text(_PROGRAM)
    return path


@pytest.mark.parametrize("is_so", [True, False])
def test_a_process_alone_agrees_with_itself(is_so):
    strategy = tf.distribute.get_strategy()

    assert is_true_on_any_worker(strategy, is_true_here=is_so) == is_so
    barrier_before_exit(strategy)


def test_workers_learn_what_one_of_them_knows_and_leave_together(clusters, script):
    outputs = clusters.run_forked_cluster(script, [], {"worker": 2}, timeout=240)

    assert {name: output.stdout for name, output in outputs.items()} == dict.fromkeys(outputs, "True False\nleft\n")


def test_a_worker_whose_partner_is_gone_when_all_is_done_ends_well(clusters, script, tmp_path):
    outputs = clusters.run_forked_cluster(script, [str(tmp_path / "said")], {"worker": 2}, timeout=240)

    assert outputs["worker0"].stdout == "True False\nalone\nleft\n", outputs["worker0"].stderr
    assert outputs["worker0"].returncode == 0
