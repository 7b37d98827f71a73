"""Requests that Cloud Storage carries out, and whose answers are lost."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.io.atomic_folder import atomic_folders
from tfx_gnn.io.whole_files import write_whole


def test_outputs_appear_whole_although_answers_are_lost(gcs):
    names = ("a.txt", "sub/b.txt", "sub/c.txt")

    with gcs.failing(rate=0.1, kinds=["lost"], seed=3) as counts:
        for number in range(3):
            place = f"gs://bucket/outputs/{number}"
            with atomic_folders({"one": f"{place}/one", "two": f"{place}/two"}) as folders:
                for folder in folders:
                    for name in names:
                        with tf.io.gfile.GFile(f"{folder}/{name}", "w") as file:
                            file.write(name)
            write_whole(f"{place}/log.txt", "first")
            write_whole(f"{place}/log.txt", "second")

    assert counts["lost"] > 5
    objects = [name for name in gcs.objects("outputs/") if not name.endswith("/")]
    wanted = [f"outputs/{number}/{folder}/{name}" for number in range(3) for folder in ("one", "two") for name in names]
    logs = [f"outputs/{number}/log.txt" for number in range(3)]
    assert sorted(objects) == sorted([*wanted, *logs])
    assert {gcs.read(name) for name in logs} == {b"second"}
    assert all(name.endswith(gcs.read(name).decode()) for name in wanted)
