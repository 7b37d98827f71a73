"""Links known to be true, which filtered ranking leaves out of the candidates."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.models.tasks import READOUT_NODE_SET
from tfx_gnn.serving import model_interface
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_layouts import seeds_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import read_table
from tfx_gnn.tables.table_layout import TableColumn

LEFT_OUT = -1.0
"""Label of a candidate that takes no part."""

_ENDS = ("source", "target")
_IDS = (model_interface.SOURCE_ID_OUTPUT, model_interface.TARGET_ID_OUTPUT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownLinks:
    """A table of true links, of all splits. It is read where it is asked, and kept in memory there.

    Attributes:
        path: table of a format that tables of graphs have, with columns "source" and "target".
        features: columns that tell links of the same ends apart; features of `_readout` in raw examples have
            their names.
    """

    path: str
    features: tuple[str, ...] = ()

    def without_false_negatives(
        self,
        truth: npt.NDArray[Any],
        examples: Sequence[Mapping[str, Any]],
        outputs: Mapping[str, npt.NDArray[Any]],
    ) -> npt.NDArray[Any]:
        """Leaves out candidates that are labelled false and known to be true.

        `truth` and the result are float64 [n, largest number of candidates]. The original ids of both ends must
        be among `outputs`.
        """
        missing = [name for name in _IDS if name not in outputs]
        if missing:
            raise ValueError(
                f"`known_links` must be left out where a model answers no ids; got no outputs {missing}. Keep `#id` of "
                "node sets in `preprocessing_fn`, and train again."
            )
        sources, targets = (outputs[name] for name in _IDS)
        marked = truth.copy()
        # Pairs that the model does not score are told by whoever compares scores with labels.
        for row, column in zip(*np.nonzero(truth[:, : sources.shape[1]] == 0), strict=True):
            ends = _as_text(sources[row, column]), _as_text(targets[row, column])
            if (*ends, *self._features_of(examples[row], int(column))) in self._known:
                marked[row, column] = LEFT_OUT
        return marked

    def _features_of(self, example: Mapping[str, Any], column: int) -> list[str]:
        values = []
        for name in self.features:
            key = f"nodes/{READOUT_NODE_SET}.{name}"
            kind = example[key].WhichOneof("kind") if key in example else None
            of_candidates = getattr(example[key], kind).value if kind else ()
            if column >= len(of_candidates):
                raise ValueError(
                    f"`known_link_features` must name features of {READOUT_NODE_SET!r} with a value a candidate; got "
                    f"{name!r}, of which there are {len(of_candidates)}. Name what tells links of the same ends apart."
                )
            values.append(_as_text(of_candidates[column]))
        return values

    @functools.cached_property
    def _known(self) -> frozenset[tuple[str, ...]]:
        folder, file = os.path.split(self.path)
        names = (*_ENDS, *self.features)
        columns = {name: TableColumn(name=name, dtype=pa.large_string()) for name in names}
        table = read_table(
            seeds_layout(folder, file, columns, access=TableAccess(allow_outside_files=True)), RowRules()
        )
        return frozenset(zip(*(table.columns[name].to_pylist() for name in names), strict=True))


def _as_text(value: Any) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
