"""Random choices that are pure functions of what they choose for.

A generator object would make each choice depend on all choices before it, so
on the order of work and the number of workers. Here the choice for one node
depends on (sampling seed, subgraph, hop, node) and on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_STEP = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, the increment of SplitMix64
_MASK = 2**64 - 1
_HASH_BYTES = 8


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scrambles 64-bit values: the output function of SplitMix64 (Steele et al., 2014).

    Args:
        values: uint64 array of any shape.

    Returns:
        Array of the same shape; a one-to-one image in which every input bit
        changes about half of the output bits.
    """
    mixed = values + np.uint64(_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hash_texts(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Hashes strings to 64 bits, the same in every process and release.

    Args:
        texts: strings, for example node ids.

    Returns:
        uint64 array, shape [number of texts].
    """
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def hash_integers(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hashes integers to 64 bits, the same in every process and release.

    Args:
        values: int64 array, for example node ids.

    Returns:
        uint64 array of the same shape.
    """
    return mix(values.astype(np.uint64))


def choice_keys(
    sampling_seed: int, hop_name: str, subgraph_hashes: npt.NDArray[np.uint64], node_hashes: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Keys one random choice a pair of subgraph and node.

    Args:
        sampling_seed: seed of the whole run, in [0, 2**63).
        hop_name: name of the hop that chooses.
        subgraph_hashes: uint64 array, shape [n]: hash of the id of each choice's seed node.
        node_hashes: uint64 array, shape [n]: hash of the id of the node whose edges are chosen.

    Returns:
        uint64 array, shape [n].
    """
    run = mix(np.array([sampling_seed], np.uint64))
    hop = mix(run ^ hash_texts([hop_name]))
    return mix(mix(hop ^ subgraph_hashes) ^ node_hashes)


def choose_positions(
    keys: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64], fan_out: int
) -> npt.NDArray[np.int64]:
    """Chooses `fan_out` different positions out of each row's `counts`, all sets equally likely.

    Floyd's algorithm (Bentley, Floyd: A sample of brilliance, 1987), all rows at
    once. Its cost does not depend on `counts`, so a hub costs what any node costs.

    Args:
        keys: uint64 array, shape [n]: key of each row's choice.
        counts: int64 array, shape [n], each at least `fan_out`.
        fan_out: how many to choose, at least 1.

    Returns:
        int64 array, shape [n, fan_out], values in [0, counts[i]), ascending in each row.
    """
    chosen = np.empty((keys.shape[0], fan_out), np.int64)
    for step in range(fan_out):
        last = counts - fan_out + step
        # The remainder favours small values by less than counts / 2**64.
        draw = (mix(keys + np.uint64((step + 1) * _STEP & _MASK)) % (last + 1).astype(np.uint64)).astype(np.int64)
        taken = (chosen[:, :step] == draw[:, np.newaxis]).any(axis=1)
        chosen[:, step] = np.where(taken, last, draw)
    chosen.sort(axis=1)
    return chosen
