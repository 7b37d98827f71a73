from __future__ import annotations

import concurrent.futures
import copy
import pickle

import numpy as np
import pytest

from tfx_gnn import Batch, DataLoader, GraphData, HeteroGraphData, collate


class Molecule(GraphData):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._unit = "nm"

    def heavy(self):
        return int((self.x > 5).sum())

    @property
    def double(self):
        return self.num_nodes * 2

    @property
    def unit(self):
        return self._unit


class Pair(GraphData):
    @property
    def num_nodes(self):
        return len(self.x_s) + len(self.x_t)

    def __inc__(self, key, value, *args, **kwargs):
        return self.x_s.size(0) if key == "edge_index_s" else super().__inc__(key, value, *args, **kwargs)


class Typed(HeteroGraphData):
    def kinds(self):
        return self.node_types

    def __inc__(self, key, value, *args, **kwargs):
        return super().__inc__(key, value, *args, **kwargs)


def molecules():
    return [Molecule(x=np.array([4, 6, size]), edge_index=[[0], [1]]) for size in (7, 8)]


def typed():
    data = Typed()
    data["p"].num_nodes = 2
    data["a"].num_nodes = 3
    data["p", "w", "a"].edge_index = [[0, 1], [2, 0]]
    data["p", "w", "a"].twin_index = np.array([[1], [1]])
    return data


@pytest.mark.parametrize(
    "again", [lambda batch: batch, copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))]
)
def test_a_batch_has_the_methods_of_its_examples(again):
    batch = again(collate(molecules()))

    assert isinstance(batch, Molecule)
    assert isinstance(batch, Batch)
    assert type(batch) is type(collate(molecules()))
    assert (batch.heavy(), batch.double, batch.unit) == (4, 12, "nm")
    assert (type(batch).__name__, type(batch[0]), len(batch)) == ("MoleculeBatch", Molecule, 2)
    assert [example.unit for example in batch.to_data_list()] == ["nm", "nm"]


def test_classes_of_examples_have_classes_of_batches_of_their_own():
    batch = collate([GraphData(x=np.ones([1, 1]))])

    assert not isinstance(batch, Molecule)
    assert not isinstance(batch, HeteroGraphData)
    assert isinstance(collate([typed()]), HeteroGraphData)
    assert collate([typed(), typed()]).kinds() == ["p", "a"]
    assert isinstance(next(iter(DataLoader(molecules(), batch_size=2))), Molecule)


def test_batches_of_batches_are_of_the_same_class():
    inner = collate(molecules())
    outer = pickle.loads(pickle.dumps(collate([inner, inner])))

    assert type(outer) is type(inner)
    assert outer.heavy() == 8
    assert outer.batch.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert [type(one) for one in outer.to_data_list()] == [type(inner)] * 2
    assert [type(one) for one in outer[0].to_data_list()] == [Molecule] * 2


def test_overridden_increments_hold_in_batches_of_batches():
    data = Pair(x_s=np.ones([2, 1]), x_t=np.ones([1, 1]), edge_index_s=np.array([[0], [1]]))
    inner = collate([data, data])

    assert (inner.num_nodes, inner.edge_index_s.tolist()) == (6, [[0, 2], [1, 3]])
    assert collate([inner, inner]).edge_index_s.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_the_class_itself_is_asked_for_the_rule_of_pyg():
    class Asking(GraphData):
        def __inc__(self, key, value, *args, **kwargs):
            return super().__inc__(key, value, *args, **kwargs)

    data = Asking(
        x=np.ones([3, 1]), root_index=np.array([0, 2]), part_batch=np.array([0, 0, 1]), face=[[0], [1], [2]], index=1
    )

    batch = collate([data, data])

    assert batch.root_index.tolist() == [0, 2, 3, 5]
    assert batch.part_batch.tolist() == [0, 0, 1, 2, 2, 3]
    assert batch.face.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert batch.index.tolist() == [1, 4]
    assert data.__inc__("x", data.x) == data.__inc__("ptr", np.array([0, 3])) == 0


def test_the_class_itself_counts_both_ends_of_edges_between_types():
    batch = collate([typed(), typed()])

    assert batch["w"].edge_index.tolist() == [[0, 1, 2, 3], [2, 0, 5, 3]]
    assert batch["w"].twin_index.tolist() == [[1, 3], [1, 4]]
    guessed = HeteroGraphData(typed().to_dict())
    assert collate([guessed, guessed], guesses_by_name=True)["w"].twin_index.tolist() == [[1, 3], [1, 4]]


def test_a_batch_makes_no_types_when_it_is_read():
    batch = collate([typed(), typed()])

    with pytest.raises(KeyError, match="`key` must be a value or a type of the batch; got 'q'"):
        batch["q"]
    with pytest.raises(KeyError, match="got \\('a', 'p'\\)"):
        batch["a", "p"]
    assert batch.num_nodes == 10


def test_classes_that_leave_increments_alone_are_still_protected():
    class Stacked(GraphData):
        def __cat_dim__(self, key, value, *args, **kwargs):
            return None if key == "foo" else super().__cat_dim__(key, value, *args, **kwargs)

    data = Stacked(x=np.ones([3, 1]), index_fund=np.array([7, 8]), foo=np.ones([2]))

    with pytest.raises(ValueError, match="`index_fund` must have a rule"):
        collate([data, data])


def test_threads_agree_on_the_class_of_batches():
    class Fresh(GraphData):
        pass

    data = [Fresh(x=np.ones([1, 1]))]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        classes = set(threads.map(lambda _: type(collate(data)), range(64)))

    assert len(classes) == 1
