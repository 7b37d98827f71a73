from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.training.loop.collectives import barrier_before_exit, is_true_on_any_worker

_PROGRAM = """
import os
import pathlib
import sys
import time
import tensorflow as tf
from tfx_gnn.training.loop.collectives import is_true_on_any_worker, barrier_before_exit, barrier

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
