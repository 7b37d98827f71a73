import numpy as np
import pytest

from tfx_gnn.sampling.plan import edge_ranks


def test_edges_are_hidden_from_their_own_split_and_earlier_ones():
    codes = np.array([0, 0, 1, 2, -1, -1], np.int16)
    supervision_only = np.array([False, True, True, False, True, False])

    ranks = edge_ranks.link_edge_ranks(codes, supervision_only)

    assert ranks.dtype == np.int8
    assert ranks.tolist() == [0, 1, 3, 5, 0, 0]
    visible = {split: (ranks <= edge_ranks.rank_limit(split)).tolist() for split in range(3)}
    assert visible == {
        0: [True, False, False, False, True, True],
        1: [True, True, False, False, True, True],
        2: [True, True, True, False, True, True],
    }


def test_nodes_are_hidden_from_earlier_splits_only():
    ranks = edge_ranks.node_ranks(np.array([0, 1, 2, -1], np.int16))

    assert ranks.tolist() == [0, 2, 4, 0]
    assert (ranks <= edge_ranks.rank_limit(1)).tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("sources", "targets", "ranks"),
    [([0, 2, 4], [2, 0, 2], [2, 2, 4]), ([0, 2, 4], None, [0, 2, 4]), (None, [4, 0, 0], [4, 0, 0])],
)
def test_an_edge_shows_both_of_its_nodes(sources, targets, ranks):
    as_ranks = [None if values is None else np.array(values, np.int8) for values in (sources, targets)]

    assert edge_ranks.inductive_edge_ranks(*as_ranks).tolist() == ranks


def test_edges_between_other_nodes_have_no_ranks():
    assert edge_ranks.inductive_edge_ranks(None, None) is None


def test_ranks_of_sixty_splits_fit():
    assert edge_ranks.link_edge_ranks(np.array([59], np.int16), np.array([False])).tolist() == [119]
