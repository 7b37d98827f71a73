import pytest

from tfx_gnn.sampling.plan.negatives import Negatives, counts_of_shares


@pytest.mark.parametrize(
    ("shares", "number", "counts"),
    [
        ((0.5, 0.25), 5, (3, 1)),
        ((0.5,), 1, (1,)),
        ((0.333333, 0.333333, 0.333334), 3, (1, 1, 1)),
        ((0.1,), 30, (3,)),
        ((0.1, 0.1), 2, (0, 0)),
        ((), 4, ()),
    ],
)
def test_shares_become_counts_by_largest_remainder(shares, number, counts):
    assert counts_of_shares(shares, number) == counts


def test_negatives_are_divided_among_conditions_in_alphabetical_order():
    negatives = Negatives(num_per_positive=5, conditions={"size": 0.2, "color": 0.4})

    assert negatives.parts == (("color", 2), ("size", 1), ("", 2))
    assert negatives.part_of_negative == (0, 0, 1, 2, 2)
    assert negatives.condition_features == ("color", "size")


def test_one_feature_of_all_negatives_is_a_condition():
    short, long = (
        Negatives(num_per_positive=2, same_feature="color"),
        Negatives(num_per_positive=2, conditions={"color": 1}),
    )

    assert short.parts == long.parts == (("color", 2),)
    assert short.sums_weights
    assert Negatives(num_per_positive=2).parts == (("", 2),)
    assert not Negatives(num_per_positive=2).sums_weights


def test_the_other_end_is_kept():
    assert Negatives(num_per_positive=1).kept_side == "source"
    assert Negatives(num_per_positive=1, side="source").kept_side == "target"
