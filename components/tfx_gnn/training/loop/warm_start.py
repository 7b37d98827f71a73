"""Starts a training from the weights of an earlier model, whose vocabularies may be others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.weight_index import FIXED, IndexBlock
from tfx_gnn.training.export.saved_weights import ModelWeight, WeightLayout, find_weights
from tfx_gnn.training.loop.summary import WarmStart

_MAX_SHOWN = 3
_REMEDY = (
    "Train with the options of that model, or choose `warm_start` 'matching_weights' to take what fits, or 'none' to "
    "train from the start."
)


class Vocabularies(Protocol):
    """The vocabularies of a transform, as `TransformResults` and `SavedWeights` have them."""

    def vocabulary_names(self) -> list[str]:
        """Lists the vocabularies."""
        ...

    def vocabulary_by_name(self, vocab_filename: str, /) -> Sequence[bytes]:
        """Returns the terms of a vocabulary, in the order of their indices."""
        ...


class EarlierWeights(Vocabularies, Protocol):
    """The weights of an earlier model, as `SavedWeights` has them."""

    layouts: Mapping[str, WeightLayout]

    def value(self, name: str) -> npt.NDArray[Any]:
        """Reads the values of a weight."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Move:
    """Where to copy values from.

    Attributes:
        name: name of the earlier weight.
        axis: axis of the positions.
        here: positions in the weight of the new model.
        there: positions of the same values in the earlier weight.
    """

    name: str
    axis: int
    here: npt.NDArray[np.int64]
    there: npt.NDArray[np.int64]


def warm_start(
    model: tf_keras.Model,
    earlier: EarlierWeights,
    *,
    description: str,
    vocabularies: Vocabularies,
    class_vocabularies: Collection[str],
    must_match: bool,
) -> WarmStart:
    """Copies the weights of an earlier model into one that has not been trained.

    Rows and columns that a vocabulary numbers are copied by its terms, and those for values that it lacks by their
    order. Terms that the earlier model did not know keep their initial values. The optimizer stays as it is, except for
    averages of weights, which start from the copied ones.

    Args:
        model: built and compiled model with all of its variables; call this in the scope of its strategy.
        earlier: the weights to start from.
        description: of the earlier model, in words, for errors.
        vocabularies: those of the new model.
        class_vocabularies: those of the tasks' classes.
        must_match: whether the networks must be the same but for the sizes of vocabularies. If not, weights that do not
            fit keep their initial values.

    Returns:
        What was copied.

    Raises:
        ValueError: if the networks must be the same and differ, or the classes have changed and it is not known which
            weights they number.
    """
    plan = _Plan(find_weights(model), earlier, vocabularies)
    plan.check_classes(class_vocabularies, description)
    if must_match:
        plan.check_match(description)
    for name, moves in plan.moves.items():
        plan.copy(name, moves)
    _restart_averages(model)
    return plan.summary(description)


class _Plan:
    """Which values are copied where, found from shapes and vocabularies alone."""

    def __init__(self, weights: Mapping[str, ModelWeight], earlier: EarlierWeights, vocabularies: Vocabularies) -> None:
        self._weights, self._earlier = weights, earlier
        self._match = _TermMatch(weights, earlier, vocabularies)
        self.moves: dict[str, list[_Move]] = {}
        self._problems: list[str] = []
        self._matched: set[tuple[str, int]] = set()
        for name, weight in weights.items():
            moves = self._moves_of_blocks(name, weight) if weight.layout.index else self._move_of_all(name, weight)
            if moves:
                self.moves[name] = moves

    def check_classes(self, class_vocabularies: Collection[str], description: str) -> None:
        """Refuses classes that have changed, if no layer is known to have a position for each."""
        lost = sorted(self._match.changed & set(class_vocabularies) - self._match.claimed)
        if lost:
            raise ValueError(
                f"`warm_start` must know which weights are of which class, since the classes have changed; got a model "
                f"without a known layer for the vocabulary {lost[0]!r}, which is another than in {description}. End a "
                "functional model with `objective.output_layer()` or a Dense layer of one unit per class."
            )

    def check_match(self, description: str) -> None:
        """Refuses another network than the earlier one."""
        problems = [*self._problems, *(f"{name} is in that model alone" for name in self._unmatched())]
        if problems:
            more = f"; and {len(problems) - _MAX_SHOWN} more" if len(problems) > _MAX_SHOWN else ""
            raise ValueError(
                f"`warm_start` must find the same network in the model to start from; got {len(problems)} differences "
                f"to {description}: {'; '.join(problems[:_MAX_SHOWN])}{more}. {_REMEDY}"
            )

    def copy(self, name: str, moves: Sequence[_Move]) -> None:
        """Copies the values of one weight."""
        weight = self._weights[name]
        if self._num_copied(name) == _num_positions(weight.layout):
            value = np.zeros(weight.layout.shape, weight.variable.dtype.as_numpy_dtype)
        else:
            # New terms keep the initial values of their rows.
            value = tf.convert_to_tensor(weight.variable).numpy()
        earlier = {name: self._earlier.value(name) for name in {move.name for move in moves}}
        for move in moves:
            there = earlier[move.name]
            if not value.shape:
                value = there.astype(value.dtype)
                continue
            np.moveaxis(value, move.axis, 0)[move.here] = np.moveaxis(there, move.axis, 0)[move.there]
        weight.variable.assign(value)

    def summary(self, description: str) -> WarmStart:
        """Counts what was copied."""
        num_missing = {name: _num_positions(self._weights[name].layout) - self._num_copied(name) for name in self.moves}
        num_grown = sum(number > 0 for number in num_missing.values())
        return WarmStart(
            model=description,
            num_taken=len(num_missing) - num_grown,
            num_grown=num_grown,
            fresh=tuple(sorted(self._weights.keys() - self.moves.keys())),
            left=tuple(sorted(name for name in self._earlier.layouts if not self._num_taken_of(name))),
            num_new_terms=sum(num_missing.values()),
            num_lost_terms=sum(
                _num_positions(layout) - self._num_taken_of(name)
                for name, layout in self._earlier.layouts.items()
                if self._num_taken_of(name)
            ),
        )

    def _num_copied(self, name: str) -> int:
        return sum(len(move.here) for move in self.moves.get(name, ()))

    def _num_taken_of(self, name: str) -> int:
        taken = [move.there for moves in self.moves.values() for move in moves if move.name == name]
        return np.unique(np.concatenate(taken)).size if taken else 0

    def _unmatched(self) -> list[str]:
        """Lists weights, and blocks of weights, of the earlier model that have no counterpart, fitting or not."""
        found = []
        for name, layout in self._earlier.layouts.items():
            if layout.index is None:
                found += [repr(name)] if (name, 0) not in self._matched else []
            else:
                blocks = [block for begin, block in layout.blocks() if (name, begin) not in self._matched]
                found += [_described(name, block) for block in blocks]
        return found

    def _move_of_all(self, name: str, weight: ModelWeight) -> list[_Move]:
        shape = weight.layout.shape
        there = self._earlier.layouts.get(name)
        if there is None:
            self._problems.append(f"{name!r} is not in that model")
            return []
        self._matched.update((name, begin) for begin, _ in there.blocks())
        self._matched.add((name, 0))
        if there.shape != shape:
            self._problems.append(f"{name!r} has shape {list(shape)}, and {list(there.shape)} there")
            return []
        everything = np.arange(_num_positions(weight.layout))
        return [_Move(name=name, axis=0, here=everything, there=everything)]

    def _moves_of_blocks(self, name: str, weight: ModelWeight) -> list[_Move]:
        moves = []
        for begin, block in weight.layout.blocks():
            found = self._find_block(name, block)
            shown = _described(name, block)
            if found is None:
                self._problems.append(f"{shown} is not in that model")
                continue
            other, other_begin, other_block = found
            layout = self._earlier.layouts[other]
            self._matched.add((other, other_begin))
            if (layout.axis, layout.other_sizes) != (weight.layout.axis, weight.layout.other_sizes):
                self._problems.append(f"{name!r} has shape {list(weight.layout.shape)}, and {list(layout.shape)} there")
                continue
            positions = self._match.positions(block, other_block)
            if isinstance(positions, str):
                self._problems.append(f"{shown} {positions}")
                continue
            here, there = positions
            moves.append(_Move(name=other, axis=layout.axis, here=here + begin, there=there + other_begin))
        return moves

    def _find_block(self, name: str, block: IndexBlock) -> tuple[str, int, IndexBlock] | None:
        """Finds the same block in the earlier model.

        A table that has grown large no longer shares a variable with others, so it may be in another weight.
        """
        found = [
            (other, begin, candidate)
            for other, layout in self._earlier.layouts.items()
            for begin, candidate in layout.blocks()
            if candidate.name == block.name
        ]
        same = [one for one in found if one[0] == name]
        if same:
            return same[0]
        return found[0] if block.name and len(found) == 1 else None


class _TermMatch:
    """Finds the same terms in the vocabularies of two models."""

    def __init__(self, weights: Mapping[str, ModelWeight], earlier: EarlierWeights, vocabularies: Vocabularies) -> None:
        self._here, self._there = _remembered(vocabularies), _remembered(earlier)
        names, earlier_names = vocabularies.vocabulary_names(), earlier.vocabulary_names()
        blocks = [block for weight in weights.values() for _, block in weight.layout.blocks()]
        self._sizes = {(block.vocabulary, block.size) for block in blocks if block.vocabulary}
        self.claimed = {vocabulary for vocabulary, _ in self._sizes}
        self.changed = {
            name
            for name in {*names, *earlier_names}
            if name not in names or name not in earlier_names or self._here(name) != self._there(name)
        }

    def positions(
        self, here: IndexBlock, there: IndexBlock
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | str:
        """Returns the positions of the same terms in two blocks, or why they cannot be found."""
        if here.vocabulary and there.vocabulary:
            terms, earlier_terms = self._here(here.vocabulary), self._there(there.vocabulary)
            num_others, num_earlier_others = here.size - len(terms), there.size - len(earlier_terms)
            if num_others >= 0 and num_earlier_others >= 0:
                if num_others != num_earlier_others:
                    return (
                        f"has {num_others} positions for values outside of the vocabulary, and {num_earlier_others} "
                        "there"
                    )
                return _same_terms(terms, earlier_terms, num_others)
        if here.size != there.size:
            return f"has {here.size} positions of no known vocabulary, and {there.size} there"
        # A vocabulary that no layer names, or that one of as many positions names, may number these, too.
        suspects = sorted(name for name in self.changed if name not in self.claimed or (name, here.size) in self._sizes)
        if suspects and (here.vocabulary, there.vocabulary) != (FIXED, FIXED):
            return (
                f"has positions of no known vocabulary, which may be {suspects[0]!r}, whose terms have changed: name "
                "it as `vocabulary` of the embedding"
            )
        everything = np.arange(here.size)
        return everything, everything


def _described(name: str, block: IndexBlock) -> str:
    return f"table {block.name!r} of {name!r}" if block.name else repr(name)


def _same_terms(
    terms: Sequence[bytes], earlier: Sequence[bytes], num_others: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    position_of = {term: position for position, term in enumerate(earlier)}
    pairs = [(position, position_of[term]) for position, term in enumerate(terms) if term in position_of]
    pairs += [(len(terms) + one, len(earlier) + one) for one in range(num_others)]
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _remembered(vocabularies: Vocabularies) -> Callable[[str], Sequence[bytes]]:
    read: dict[str, Sequence[bytes]] = {}

    def terms(name: str) -> Sequence[bytes]:
        if name not in read:
            read[name] = list(vocabularies.vocabulary_by_name(name))
        return read[name]

    return terms


def _num_positions(layout: WeightLayout) -> int:
    """Counts the positions that are copied one by one; a scalar is one."""
    return layout.shape[layout.axis] if layout.shape else 1


def _restart_averages(model: tf_keras.Model) -> None:
    """Lets an optimizer that averages the weights begin with the copied ones."""
    averages = getattr(model.optimizer, "_model_variables_moving_average", None)
    if getattr(model.optimizer, "use_ema", False) and averages:
        for variable, average in zip(model.trainable_variables, averages, strict=True):
            average.assign(variable)
