#!/usr/bin/env python3
"""Writes tests/slow_tests.txt, which names what `make test` leaves out for its time, from recorded seconds.

    make unit PYTEST_ADDOPTS="--record-seconds=$PWD/seconds.jsonl"
    infra/ci/slow_tests.py --seconds 400 seconds.jsonl

Nothing but seconds decides. A limit is looked for with which all unit tests that stay take at most the given seconds of
one processor, and applied as follows:

- a file whose fixtures take longer than the limit is left out: whichever of its tests comes first makes them;
- a test that takes longer is left out;
- of a test whose cases together take longer, the first and the last one stay, if these two take no longer.

Component tests and whole pipelines are not chosen from; see the Makefile.
"""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

SLOW_TESTS = Path(__file__).resolve().parents[2] / "tests" / "slow_tests.txt"


def read_seconds(paths: Iterable[Path]) -> dict[str, dict[str, float]]:
    """Reads what `--record-seconds` wrote: by node id, the seconds of each phase."""
    seconds: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for path in paths:
        for line in path.read_text().splitlines():
            node, phase, taken = json.loads(line)[:3]
            seconds[node][phase] = taken
    return {node: phases for node, phases in seconds.items() if node.startswith("tests/unit/")}


def choose(seconds: Mapping[str, Mapping[str, float]], limit: float) -> tuple[list[str], float]:
    """Returns what is left out with a limit, and the seconds of what stays."""
    files: dict[str, dict[str, list[float]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    fixtures: dict[str, float] = collections.Counter()
    for node, phases in seconds.items():
        file, _, _ = node.partition("::")
        files[file][node.partition("[")[0]].append(phases.get("call", 0.0))
        fixtures[file] += phases.get("setup", 0.0) + phases.get("teardown", 0.0)
    left_out, staying = [], 0.0
    for file, tests in files.items():
        if fixtures[file] > limit:
            left_out.append(file)
            continue
        staying += fixtures[file]
        for test, cases in tests.items():
            few = cases[0] + cases[-1]
            if sum(cases) <= limit:
                staying += sum(cases)
            elif len(cases) > 2 and few <= limit:
                left_out.append(f"{test}[...]")
                staying += few
            else:
                left_out.append(test)
    return sorted(left_out), staying


def main() -> None:
    """Reads the records, and writes the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path, help="files that --record-seconds wrote")
    parser.add_argument("--seconds", type=float, required=True, help="of one processor, for all unit tests that stay")
    arguments = parser.parse_args()
    seconds = read_seconds(arguments.records)
    limits = [tenths / 10 for tenths in range(1, 600)]
    limit = max((one for one in limits if choose(seconds, one)[1] <= arguments.seconds), default=limits[0])
    left_out, staying = choose(seconds, limit)
    SLOW_TESTS.write_text("".join(f"{one}\n" for one in left_out))
    all_seconds = sum(sum(phases.values()) for phases in seconds.values())
    print(
        f"{len(left_out)} files, tests and cases of more than {limit} s are left out; {staying:.0f} of "
        f"{all_seconds:.0f} s stay"
    )


if __name__ == "__main__":
    main()
