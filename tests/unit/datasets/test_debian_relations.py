from __future__ import annotations

import pytest

from tfx_gnn.datasets.debian_relations import parse_relations, split_clauses


def test_every_condition_is_understood():
    text = (
        "a, b (>= 1:2.0-1~) | c:any (<< 3) |d,\n e.f+g [linux-any !amd64], i <!nocheck> <cross !stage1>, j (= 1) [i386]"
    )

    assert [tuple(relation) for relation in parse_relations(text)] == [
        ("a", 0, 1, False),
        ("b", 0, 3, True),
        ("c", 1, 3, True),
        ("d", 2, 3, False),
        ("e.f+g", 0, 1, False),
        ("i", 0, 1, False),
        ("j", 0, 1, True),
    ]


def test_empty_clauses_are_none():
    assert list(parse_relations("")) == []
    assert split_clauses(" a,, b ,\n") == ["a", "b"]


@pytest.mark.parametrize("text", ["a | ", "${misc:Depends}", "a (>= 1", "a b", "a, _b"])
def test_what_is_no_relation_is_refused(text):
    with pytest.raises(ValueError, match="`text` must be relations like"):
        list(parse_relations(text))
