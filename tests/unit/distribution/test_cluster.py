"""The role of a process in a cluster."""

from __future__ import annotations

import json

import pytest

from tfx_gnn.distribution.cluster import cluster_role, serve

PEERS = ["a:1", "b:1"]


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
