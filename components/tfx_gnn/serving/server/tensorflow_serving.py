"""TensorFlow Serving's REST protocol: `POST /v1/models/<name>:predict`, which KServe's first protocol shares.

In its row form, `instances` is a list with one item for each example; in its column form, `inputs` is a list, or an
object with the name of the input. An item is {"b64": <serialized tf.Example>}, or {"examples": {"b64": ...}}. Beyond
that protocol, an item may be {"id": ...} or {"source": ..., "target": ...}, with ids of a graph and with rows that it
lacks, as in `tfx_gnn.serving.server.ids_input`; and an item that is another object is a graph, in the layout of
`tfx_gnn.serving.server.graph_json`. And `POST /v1/models/<name>:sample` answers the row form with the examples
themselves, the serialized tf.Examples that `:predict` would ask the model about.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.serving.server.examples_input import EXAMPLES, GRAPHS, ID, IDS, INPUTS, PAIR
from tfx_gnn.serving.server.ids_input import Item
from tfx_gnn.serving.server.inference import InputValues, check_not_too_many, items_of
from tfx_gnn.serving.server.json_values import plain_rows, read_object, write_json
from tfx_gnn.serving.server.refusals import malformed, shown
from tfx_gnn.serving.server.served_version import Outputs, ServedVersion

_FIELDS = ("signature_name", "instances", "inputs")
_DTYPES = {"string": "DT_STRING", "float32": "DT_FLOAT", "float64": "DT_DOUBLE", "bool": "DT_BOOL"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictRequest:
    """A parsed request; `is_row_form` says in which form the answer is."""

    signature_name: str
    inputs: Sequence[InputValues]
    is_row_form: bool

    def items(self, version: ServedVersion, max_examples: int) -> list[Item]:
        """Reads the examples."""
        return items_of(self.inputs, version, max_examples)

    def response(self, outputs: Outputs, model_name: str, version: int) -> tuple[bytes, dict[str, str]]:
        """Writes `predictions` or `outputs`. The name of an only output is left out, as in TensorFlow Serving."""
        columns: dict[str, list[Any]] = {name: plain_rows(values) for name, values in outputs.items()}
        content: Any
        if not self.is_row_form:
            content = {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}
        elif len(columns) == 1:
            content = {"predictions": next(iter(columns.values()))}
        else:
            lengths = {name: len(values) for name, values in columns.items()}
            if len(set(lengths.values())) > 1:
                raise malformed(
                    f"`instances` must be `inputs` for a signature with outputs of different lengths; got {lengths}. "
                    "Ask in the column form."
                )
            rows = zip(*columns.values(), strict=True)
            content = {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}
        return write_json(content), {"content-type": "application/json"}


def read_predict_request(body: bytes, max_examples: int) -> PredictRequest:
    """Reads the body of `:predict`.

    Raises:
        Refusal: if it does not have one of the two forms.
    """
    content = read_object(body)
    unknown = [name for name in content if name not in _FIELDS]
    if unknown or ("instances" in content) == ("inputs" in content):
        raise malformed(
            f"The body must have 'instances' or 'inputs', and may have 'signature_name'; got {sorted(content)[:10]}. "
            'Write {"instances": [{"b64": ...}]}.'
        )
    signature_name = content.get("signature_name", "")
    if not isinstance(signature_name, str):
        raise malformed(f"`signature_name` must be a text; got {shown(signature_name)}. Name a signature.")
    if "instances" in content:
        rows = _rows(content["instances"], "instances", max_examples)
        return PredictRequest(signature_name=signature_name, inputs=rows, is_row_form=True)
    inputs = content["inputs"]
    if isinstance(inputs, Mapping) and len(inputs) == 1 and next(iter(inputs)) in INPUTS:
        ((kind, values),) = inputs.items()
        places = [f"inputs.{kind}[{number}]" for number in range(len(_list(values, f"inputs.{kind}", max_examples)))]
        given = InputValues(kind=kind, values=values, places=places)
        return PredictRequest(signature_name=signature_name, inputs=[given], is_row_form=False)
    if isinstance(inputs, Mapping):
        raise malformed(
            f"`inputs` must be a list, or an object with one of the keys {sorted(INPUTS)}; got the keys "
            f"{sorted(inputs)[:10]}. Name the input."
        )
    return PredictRequest(
        signature_name=signature_name, inputs=_rows(inputs, "inputs", max_examples), is_row_form=False
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleRequest:
    """A parsed request for the examples themselves."""

    inputs: Sequence[InputValues]
    signature_name: str = ""

    def items(self, version: ServedVersion, max_examples: int) -> list[Item]:
        """Reads the examples, or their seeds."""
        return items_of(self.inputs, version, max_examples)

    def response(self, outputs: Outputs, model_name: str, version: int) -> tuple[bytes, dict[str, str]]:
        """Writes the examples in base64, in the form that `instances` take."""
        examples = [{"b64": base64.b64encode(record).decode()} for record in outputs[EXAMPLES].tolist()]
        return write_json({EXAMPLES: examples}), {"content-type": "application/json"}


def read_sample_request(body: bytes, max_examples: int) -> SampleRequest:
    """Reads the body of `:sample`.

    Raises:
        Refusal: if it is not `instances`, as `:predict` takes them, and nothing else.
    """
    content = read_object(body)
    if list(content) != ["instances"]:
        raise malformed(
            f"The body must have 'instances' alone; got {sorted(content)[:10]}. "
            'Write {"instances": [{"id": ...}]}, as for `:predict`.'
        )
    return SampleRequest(inputs=_rows(content["instances"], "instances", max_examples))


def _rows(items: Any, place: str, max_examples: int) -> list[InputValues]:
    """Reads a list of items; neighbours of one kind become one input."""
    rows = [_row(item, f"{place}[{number}]") for number, item in enumerate(_list(items, place, max_examples))]
    inputs = []
    for kind, group in itertools.groupby(rows, key=lambda row: row[0]):
        _, values, places = zip(*group, strict=True)
        inputs.append(InputValues(kind=kind, values=values, places=places))
    return inputs


def _row(item: Any, place: str) -> tuple[str, Any, str]:
    """Finds kind, value and place of an item."""
    if isinstance(item, Mapping) and len(item) == 1 and next(iter(item)) in INPUTS:
        ((kind, value),) = item.items()
        return kind, value, f"{place}.{kind}"
    if isinstance(item, Mapping) and list(item) == [ID]:
        return IDS, item[ID], f"{place}.{ID}"
    if isinstance(item, Mapping) and any(name in item for name in (ID, *PAIR)):
        return IDS, item, place
    is_graph = isinstance(item, Mapping) and "b64" not in item
    return (GRAPHS if is_graph else EXAMPLES), item, place


def _list(values: Any, place: str, max_examples: int) -> list[Any]:
    """Takes a list that is not too long, before each of its items takes time."""
    if not isinstance(values, list):
        raise malformed(
            f"`{place}` must be a list with one item for each example; got {shown(values)}. Make it a list."
        )
    check_not_too_many(len(values), max_examples)
    return values


def status_of(versions: Sequence[ServedVersion], failures: Mapping[int, str]) -> dict[str, Any]:
    """Describes versions in the form of `GET /v1/models/<name>`, the newest first."""
    states = {version.version: ("AVAILABLE", "OK", "") for version in versions}
    states.update({number: ("END", "UNKNOWN", message) for number, message in failures.items()})
    return {
        "model_version_status": [
            {
                "version": str(number),
                "state": state,
                "status": {"error_code": code, "error_message": message},
            }
            for number, (state, code, message) in sorted(states.items(), reverse=True)
        ]
    }


def metadata_of(version: ServedVersion, model_name: str) -> dict[str, Any]:
    """Describes the signatures of a version in the form of `GET /v1/models/<name>/metadata`."""
    signatures = {
        name: {
            "inputs": {EXAMPLES: {"dtype": "DT_STRING", "tensor_shape": _shape([None]), "name": EXAMPLES}},
            "outputs": {
                output: {
                    "dtype": _DTYPES.get(spec.dtype.name, f"DT_{spec.dtype.name.upper()}"),
                    "tensor_shape": _shape(None if spec.shape.rank is None else spec.shape.as_list()),
                    "name": output,
                }
                for output, spec in signature.output_specs.items()
            },
            "method_name": "tensorflow/serving/predict",
        }
        for name, signature in version.signatures.items()
    }
    return {
        "model_spec": {"name": model_name, "signature_name": "", "version": str(version.version)},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def _shape(sizes: Sequence[int | None] | None) -> dict[str, Any]:
    dims = [{"size": str(-1 if size is None else size), "name": ""} for size in sizes or ()]
    return {"dim": dims, "unknown_rank": sizes is None}
