import math
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.random_choice import bound_smallest, find_smallest


def test_mix_is_the_output_function_of_splitmix64():
    # The first outputs of the reference implementation for seed 1234567.
    step = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + i * step) % 2**64 for i in range(3)], np.uint64)

    assert random_choice.mix(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_hashes_are_the_same_for_ever():
    # Changing a hash changes every sample that users have drawn so far.
    assert random_choice.hash_ids(pa.array(["", "libc6", "naïve"], pa.large_string())).tolist() == [
        16294208416658607535,
        5599739067416107081,
        10789323423408167165,
    ]
    assert random_choice.hash_integers(np.array([0, -1])).tolist() == [16294208416658607535, 16490336266968443936]


def _mix(value):
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def _hash_bytes(data):
    """The definition of `hash_ids`, one word at a time."""
    value = _mix(len(data))
    for start in range(0, len(data), 8):
        value = _mix(value ^ int.from_bytes(data[start : start + 8], "little"))
    return value


@given(texts=st.lists(st.text(max_size=30), max_size=20), first=st.integers(0, 3))
def test_text_is_hashed_word_by_word(texts, first):
    ids = pa.array(texts, pa.large_string()).slice(first)

    expected = [_hash_bytes(text.encode()) for text in texts[first:]]

    assert random_choice.hash_ids(ids).tolist() == expected
    assert random_choice.hash_ids(ids.cast(pa.string())).tolist() == expected


_LENGTHS = st.one_of(st.integers(0, 40), st.integers(0, 700), st.sampled_from([4096, 131_071, 131_072, 131_080]))


@given(
    texts=st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9), _LENGTHS), max_size=40
    ),
    copies=st.sampled_from([1, 1, 20]),
)
@settings(max_examples=20, deadline=None)
def test_hash_does_not_depend_on_how_many_texts_of_which_lengths_are_hashed_together(texts, copies):
    # Few long texts are hashed in another way than many short ones.
    ids = [(text * (length // len(text.encode()) + 1))[:length] for text, length in texts] * copies

    found = random_choice.hash_ids(pa.array(ids, pa.large_string())).tolist()

    expected = {one: _hash_bytes(one.encode()) for one in set(ids)}
    assert found == [expected[one] for one in ids]


@pytest.mark.parametrize("others", [0, 1, 30])
def test_text_of_megabytes_is_hashed_at_once(others):
    text = "node \U0001f600" * 130_000 + "\0"  # 1.2 MB

    start = time.process_time()
    found = random_choice.hash_ids(pa.array([text] + ["libc6"] * others, pa.large_string())).tolist()
    seconds = time.process_time() - start

    assert found == [_hash_bytes(text.encode())] + [5599739067416107081] * others
    # A NumPy call for each word took more than a second on the same machine.
    assert seconds < 0.6


def test_many_ids_have_as_many_hashes():
    ids = pa.array([f"node-{number}" for number in range(50_000)], pa.large_string())

    assert len(np.unique(random_choice.hash_ids(ids))) == 50_000


def test_ids_are_text_or_integers():
    assert random_choice.hash_ids(pa.array([0, -1])).tolist() == [16294208416658607535, 16490336266968443936]
    with pytest.raises(TypeError, match="`ids` must be strings or integers; got an array of double"):
        random_choice.hash_ids(pa.array([0.5]))


def test_exponential_scores_are_logarithms_in_proportion_to_weights():
    uniforms = random_choice.uniform_scores(np.arange(1000, dtype=np.uint64), np.zeros(1000, np.uint64))
    uniforms = np.concatenate([uniforms, [2.0**-54, 0.5, math.sqrt(0.5), 1 - 2.0**-54]])
    weights = np.linspace(0.5, 100.0, len(uniforms))

    scores = random_choice.exponential_scores(uniforms, weights)

    assert scores.tolist() == pytest.approx(
        [-math.log(u) / w for u, w in zip(uniforms, weights, strict=True)], rel=1e-13
    )
    assert (scores >= 0).all()


def test_a_key_depends_on_every_part():
    def key(seed=1, hop="h", subgraph=2, node=3):
        return random_choice.choice_keys(
            random_choice.hop_key(seed, hop), np.array([subgraph], np.uint64), np.array([node], np.uint64)
        )[0]

    keys = {key(), key(seed=2), key(hop="g"), key(subgraph=3), key(node=2), key(subgraph=3, node=2)}

    assert len(keys) == 6
    assert key() == key()


@pytest.mark.parametrize(("count", "fan_out"), [(1, 1), (5, 5), (5, 2), (1000, 7), (10**12, 3)])
def test_positions_are_different_ascending_and_in_range(count, fan_out):
    keys = random_choice.hash_integers(np.arange(50))

    positions = random_choice.choose_positions(keys, np.full(50, count), fan_out)

    assert positions.shape == (50, fan_out)
    assert (np.diff(positions, axis=1) > 0).all()
    assert ((positions >= 0) & (positions < count)).all()


def test_rows_with_different_counts_do_not_disturb_each_other():
    keys = random_choice.hash_integers(np.arange(3))

    together = random_choice.choose_positions(keys, np.array([4, 9, 1000]), 3)

    for row, count in enumerate([4, 9, 1000]):
        alone = random_choice.choose_positions(keys[row : row + 1], np.array([count]), 3)
        assert together[row].tolist() == alone[0].tolist()


def test_draws_are_independent_of_each_other():
    keys = random_choice.hash_integers(np.arange(20_000))

    draws = random_choice.draw_positions(keys, np.full(20_000, 4), 2)

    # Sixteen pairs of positions, 1,250 times each. 37.7 is the 0.999 quantile of chi-square with 15 degrees.
    observed = np.bincount(draws[:, 0] * 4 + draws[:, 1], minlength=16)
    assert ((observed - 1250) ** 2 / 1250).sum() < 37.7


def test_all_sets_are_equally_likely():
    keys = random_choice.hash_integers(np.arange(20_000))

    positions = random_choice.choose_positions(keys, np.full(20_000, 5), 2)

    # Ten sets of two positions out of five, 2,000 times each. 27.9 is the 0.999 quantile of chi-square with 9 degrees.
    observed = np.bincount(positions[:, 0] * 5 + positions[:, 1])
    observed = observed[observed > 0]
    assert len(observed) == 10
    assert ((observed - 2000) ** 2 / 2000).sum() < 27.9


def test_positions_of_a_hub_are_uniform():
    keys = random_choice.hash_integers(np.arange(5_000))

    positions = random_choice.choose_positions(keys, np.full(5_000, 20_000), 8)

    # 40,000 draws in 20 bins; 43.8 is the 0.999 quantile of chi-square with 19 degrees.
    observed = np.bincount(positions.ravel() // 1000, minlength=20)
    assert ((observed - 2000) ** 2 / 2000).sum() < 43.8


_GROUPS = st.lists(st.lists(st.integers(0, 9).map(float), max_size=12), max_size=6)


@given(groups=_GROUPS, count=st.integers(1, 4))
def test_at_least_as_many_scores_as_asked_for_are_within_the_bound(groups, count):
    scores = np.array([score for group in groups for score in group], np.float64)

    bounds = bound_smallest(scores, np.array([len(group) for group in groups], np.int64), count)

    for group, bound in zip(groups, bounds.tolist(), strict=True):
        if len(group) <= count:
            assert bound == np.inf
        else:
            assert sorted(group)[count - 1] <= bound
            assert bound in group


@given(groups=_GROUPS, count=st.integers(1, 4))
def test_equal_scores_are_taken_in_the_order_of_rows(groups, count):
    cells = [(group, score) for group, scores in enumerate(groups) for score in scores]
    group, scores = np.array([c[0] for c in cells], np.int64), np.array([c[1] for c in cells], np.float64)
    rows = np.arange(len(cells))[::-1].copy()

    found = find_smallest(group, scores, rows, count)

    expected = []
    for number in range(len(groups)):
        ranked = sorted((scores[i], rows[i], i) for i in range(len(cells)) if group[i] == number)
        expected += [position for _, _, position in ranked[:count]]
    assert found.tolist() == expected


@pytest.mark.parametrize("shift", [0, (1 << 16) - 2])
def test_groups_may_have_any_numbers(shift):
    found = find_smallest(np.array([2, 0, 2]) + shift, np.array([3.0, 2.0, 1.0]), np.arange(3), 1)

    assert found.tolist() == [1, 2]
