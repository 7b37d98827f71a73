"""Random choices as pure functions of keys, so that every sampler draws the same.

With a generator object, each choice would depend on all earlier choices, and so
on the order of work and the number of workers. Here the choice for one node
depends on (sampling seed, subgraph, hop, node) only.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, the increment of SplitMix64
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SQRT_HALF = 0.7071067811865476
_LOG_2 = 0.6931471805599453
_LAST_TERM = 23
_WORD_BYTES = 8
# Which bytes of a word belong to a text that has 0, 1, ... 8 bytes left.
_WORD_MASKS = np.array([2 ** (8 * count) - 1 for count in range(_WORD_BYTES + 1)], np.uint64)
_CHUNK = 1 << 14  # texts at a time, so that intermediate arrays stay in the cache
# So few texts are hashed one after the other in Python's integers if they are long: a NumPy call costs as much for one
# word as for sixteen.
_FEW_TEXTS = 16
_WORDS_AT_A_TIME = 1 << 14  # of a long text, which is not copied to Python's integers as a whole
_INT_STEP, _INT_FACTORS, _INT_MASK = int(_STEP), tuple(map(int, _FACTORS)), 2**64 - 1


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scrambles 64-bit values: the output function of SplitMix64 (Steele et al., 2014).

    It is one-to-one, and every input bit changes about half of the output bits.
    """
    mixed = values + _STEP
    mixed ^= mixed >> _SHIFTS[0]
    mixed *= _FACTORS[0]
    mixed ^= mixed >> _SHIFTS[1]
    mixed *= _FACTORS[1]
    mixed ^= mixed >> _SHIFTS[2]
    return mixed


def hash_ids(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """Hashes node ids, strings or int64 without nulls, to 64 bits: the code of a node in random choices.

    The hash is the same in every process, on every machine and in every release. Text
    is read as UTF-8 in little-endian words of eight bytes, the last one padded with
    zeros; each word is mixed into the hash, which starts from the length in bytes.
    """
    if pa.types.is_integer(ids.type):
        return hash_integers(ids.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))
    if pa.types.is_string(ids.type):
        ids = ids.cast(pa.large_string())
    if not pa.types.is_large_string(ids.type):
        raise TypeError(f"`ids` must be strings or integers; got an array of {ids.type}. Cast it first.")
    if not len(ids):
        return np.zeros(0, np.uint64)
    _, offset_buffer, data_buffer = ids.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    # Room for a whole word at the very end, so that no read leaves the array.
    data = np.zeros(last - first + _WORD_BYTES, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    # A view with a word at every byte: overlapping and unaligned, so it must never be copied as a whole.
    words: npt.NDArray[np.uint64] = np.ndarray((last - first + 1,), "<u8", data, strides=(1,))
    hashes = np.empty(len(ids), np.uint64)
    for start in range(0, len(ids), _CHUNK):
        stop = min(start + _CHUNK, len(ids))
        bounds = offsets[start : stop + 1] - first
        hashes[start:stop] = _hash_words(data, words, bounds[:-1], np.diff(bounds))
    return hashes


def _hash_words(
    data: npt.NDArray[np.uint8],
    words: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]:
    hashes = mix(lengths.astype(np.uint64))
    num_words = (lengths + _WORD_BYTES - 1) // _WORD_BYTES
    # One word of all texts at a time, for as long as there are many texts or few words.
    done = 0 if _are_few(len(starts), int(num_words.max())) else int(num_words.min())
    for word in range(done):
        masks = _WORD_MASKS[np.minimum(lengths - word * _WORD_BYTES, _WORD_BYTES)]
        hashes = mix(hashes ^ (words[starts + word * _WORD_BYTES].astype(np.uint64, copy=False) & masks))
    longer, longest = np.flatnonzero(num_words > done), int(num_words.max())
    while len(longer) and not _are_few(len(longer), longest - done):
        masks = _WORD_MASKS[np.minimum(lengths[longer] - done * _WORD_BYTES, _WORD_BYTES)]
        read = words[starts[longer] + done * _WORD_BYTES].astype(np.uint64, copy=False)
        hashes[longer] = mix(hashes[longer] ^ (read & masks))
        done += 1
        longer = longer[num_words[longer] > done]
    for text in longer.tolist():
        start, stop = int(starts[text]), int(starts[text] + lengths[text])
        hashes[text] = _hash_rest(int(hashes[text]), data[start + done * _WORD_BYTES : stop])
    return hashes


def _are_few(num_texts: int, num_words: int) -> bool:
    """Tells whether texts, the longest of which has some words left, are hashed faster one by one."""
    return num_texts <= _FEW_TEXTS and 2 * num_texts <= num_words


def _hash_rest(value: int, rest: npt.NDArray[np.uint8]) -> int:
    """Mixes the words of one text into its hash so far, as `_hash_words` does."""
    step, (first, second), mask = _INT_STEP, _INT_FACTORS, _INT_MASK
    for start in range(0, len(rest), _WORDS_AT_A_TIME * _WORD_BYTES):
        part = rest[start : start + _WORDS_AT_A_TIME * _WORD_BYTES]
        part = np.pad(part, (0, -len(part) % _WORD_BYTES)) if len(part) % _WORD_BYTES else part
        for word in part.view("<u8").tolist():
            value = ((value ^ word) + step) & mask
            value = (value ^ (value >> 30)) * first & mask
            value = (value ^ (value >> 27)) * second & mask
            value ^= value >> 31
    return value


@functools.lru_cache(maxsize=1024)
def hash_name(name: str) -> int:
    """Hashes one text as `hash_ids` does."""
    return int(hash_ids(pa.array([name], pa.large_string()))[0])


def hash_integers(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hashes integers to 64 bits, one-to-one and the same in every process and release."""
    return mix(values.astype(np.uint64))


def edge_hash(edge_rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hashes edges, identified by their row in the edge table as written.

    The edges of a node are sorted by this hash before one is chosen by its position,
    so ranges of hashes divide the edges of a hub evenly.
    """
    return mix(edge_rows.astype(np.uint64))


def choice_keys(
    hop_keys: np.uint64 | npt.NDArray[np.uint64],
    subgraph_keys: npt.NDArray[np.uint64],
    node_codes: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]:
    """Makes one choice key per hop (see `hop_key`), subgraph key (see `Seeds`) and node code (see `hash_ids`)."""
    return mix(mix(hop_keys ^ subgraph_keys) ^ node_codes)


@functools.lru_cache(maxsize=1024)
def hop_key(sampling_seed: int, hop_name: str) -> np.uint64:
    """Makes the key of a hop in the choices of a run."""
    run = mix(np.array([sampling_seed], np.uint64))
    return np.uint64(mix(run ^ np.uint64(hash_name(hop_name)))[0])


def choose_positions(
    keys: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64], fan_out: int
) -> npt.NDArray[np.int64]:
    """Chooses `fan_out` different positions out of each row's `counts`, all sets equally likely; ascending.

    This is Floyd's algorithm (Bentley, Floyd: A sample of brilliance, 1987) for all rows
    at once. `counts` are at least `fan_out`. The cost does not depend on them, so a hub
    costs no more than any other node.
    """
    last = counts[:, np.newaxis] - fan_out + np.arange(fan_out)
    draws = _draws(keys, fan_out, last + 1)
    chosen = np.sort(draws, axis=1)
    # Most rows draw different positions; in the others, a repeated draw is replaced by the last position of its step.
    again = (chosen[:, 1:] == chosen[:, :-1]).any(axis=1).nonzero()[0]
    if len(again):
        repeated, last = draws[again], last[again]
        for step in range(1, fan_out):
            taken = (repeated[:, :step] == repeated[:, step : step + 1]).any(axis=1)
            repeated[taken, step] = last[taken, step]
        chosen[again] = np.sort(repeated, axis=1)
    return chosen


def draw_positions(
    keys: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64], num_draws: int
) -> npt.NDArray[np.int64]:
    """Draws `num_draws` independent positions out of each row's `counts`, in the order of the draws."""
    return _draws(keys, num_draws, counts[:, np.newaxis])


def uniform_scores(
    keys: npt.NDArray[np.uint64], edge_hashes: npt.NDArray[np.uint64], draw: int = 0
) -> npt.NDArray[np.float64]:
    """Gives each candidate edge of a choice a random number of its own, in (0, 1].

    The edges with the smallest numbers are a uniform choice, however the edges are
    divided among workers. `keys` holds the key of each candidate's choice.
    """
    bits = mix((keys + _steps(draw + 1)[-1]) ^ edge_hashes)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def exponential_scores(uniforms: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Turns uniform scores into scores of a weighted choice: -log(u) / weight, for positive weights.

    The edges with the smallest scores are a weighted choice without replacement, drawn
    one after the other (Efraimidis, Spirakis: Weighted random sampling with a reservoir,
    2006). The logarithm is computed from sums, products and quotients alone, which are
    the same on every machine; the logarithms of C libraries and processors differ in the
    last bit.
    """
    mantissas, exponents = np.frexp(uniforms)
    small = mantissas < _SQRT_HALF
    mantissas = np.where(small, 2 * mantissas, mantissas)
    exponents = exponents - small
    # log(m) = 2 atanh(s), whose series ends below 2**-60 for |s| < 0.172.
    s = (mantissas - 1) / (mantissas + 1)
    square = s * s
    series = np.full_like(s, 1 / _LAST_TERM)
    for denominator in range(_LAST_TERM - 2, 0, -2):
        series = series * square + 1 / denominator
    return -(exponents * _LOG_2 + 2 * s * series) / weights


def bound_smallest(
    scores: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.float64]:
    """Bounds the `count`-th smallest score of each group from above (float64), without sorting.

    `scores` is sorted by group; `sizes` holds the number of scores of each group. Groups of at most `count`
    scores have an infinite bound.
    A group is cut into `count` parts. Each part has a smallest score, so `count` of
    the group's scores are at most the largest of these minima. If scores are in random
    order, about `count * log(count)` are below the bound, however large the group is.
    """
    bounds = np.full(len(sizes), np.inf)
    large = np.flatnonzero(sizes > count)
    if not len(large):
        return bounds
    begins = (np.cumsum(sizes) - sizes)[large, np.newaxis]
    # The bounds of each group's parts; the last slice reaches to the next large group and is dropped.
    cuts = begins + sizes[large, np.newaxis] * np.arange(count + 1) // count
    padded = np.append(scores, np.inf)
    bounds[large] = np.minimum.reduceat(padded, cuts.ravel()).reshape(cuts.shape)[:, :count].max(axis=1)
    return bounds


def find_smallest(
    group: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], edge_rows: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.int64]:
    """Returns the positions of the `count` smallest pairs of (score, edge row) in each group: by group, ascending."""
    if not len(group):
        return np.zeros(0, np.int64)
    order = np.argsort(scores)
    # Stable sorting of 16-bit integers takes linear time.
    small = group.astype(np.uint16) if group.max() < 1 << 16 else group
    order = order[np.argsort(small[order], kind="stable")]
    in_order, ordered_scores = group[order], scores[order]
    if ((in_order[1:] == in_order[:-1]) & (ordered_scores[1:] == ordered_scores[:-1])).any():
        order = np.lexsort((edge_rows, scores, group))
        in_order = group[order]
    begins = np.flatnonzero(np.diff(in_order, prepend=in_order[0] - 1))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    found: npt.NDArray[np.int64] = order[rank < count]
    return found


def _draws(keys: npt.NDArray[np.uint64], num_draws: int, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Draws positions, shape [num_keys, num_draws], each below its count, of this shape or [num_keys, 1]."""
    # The remainder favours small values by less than counts / 2**64.
    return (mix(keys[:, np.newaxis] + _steps(num_draws)) % counts.astype(np.uint64)).view(np.int64)


@functools.lru_cache(maxsize=1024)
def _steps(num_draws: int) -> npt.NDArray[np.uint64]:
    """Returns what is added to a key for each of its draws."""
    return np.arange(1, num_draws + 1, dtype=np.uint64) * _STEP
