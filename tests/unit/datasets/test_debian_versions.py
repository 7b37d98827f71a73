from __future__ import annotations

import itertools

import pytest

from tfx_gnn.datasets.debian_versions import version_key

# Each older than all behind it; Debian Policy 5.6.12 tells why.
ASCENDING = [
    "~~", "~~a", "~", "0~~1-1", "0~", "0", "1~rc1", "1", "1-0+b1", "1-1", "1.0", "1.0a", "1.0+b1", "1.0.1", "1.2-3-4",
    "1.10", "2", "10", "a", "1:0", "1:0.1", "10:0",
]  # fmt: skip


def test_versions_have_the_order_of_dpkg():
    for older, newer in itertools.combinations(ASCENDING, 2):
        assert version_key(older) < version_key(newer), (older, newer)


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.00"), ("0:1", "1"), ("1-0", "1"), ("1.a01", "1.a1")])
def test_versions_that_differ_in_spelling_only_are_equal(one, other):
    assert version_key(one) == version_key(other)


def test_the_end_comes_before_letters_and_these_before_other_signs():
    assert sorted(["1+", "1a", "1", "1~"], key=version_key) == ["1~", "1", "1a", "1+"]


def test_an_epoch_is_a_number():
    with pytest.raises(ValueError, match="must begin with a number where it has a colon; got 'x:1'"):
        version_key("x:1")
