"""The Open Inference Protocol, version 2, of KServe and Triton: `POST /v2/models/<name>/infer`.

A request has one input tensor of shape [n]. Of datatype BYTES are `examples`, serialized tf.Examples, and `graphs`,
each a graph as JSON. `ids` of nodes in a graph index are BYTES or INT64, as in the tables; a pair of ids is a text of
JSON. Bytes that are no text are {"b64": ...} in its data, or base64 with the parameter "content_type":
"base64", or follow the JSON in the form of the binary tensor extension. The parameter `signature_name` of the request
names another signature than that of predictions.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.serving.server.examples_input import IDS, INPUTS
from tfx_gnn.serving.server.ids_input import Item
from tfx_gnn.serving.server.inference import InputValues, check_not_too_many, items_of
from tfx_gnn.serving.server.json_values import is_text, plain_rows, read_object, write_json
from tfx_gnn.serving.server.refusals import malformed, shown
from tfx_gnn.serving.server.served_version import Outputs, ServedVersion

JSON_LENGTH_HEADER = "inference-header-content-length"
"""Header with the length of the JSON before binary tensors."""

_DATATYPES = {
    "string": "BYTES",
    "bool": "BOOL",
    "bfloat16": "FP32",
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
    **{f"{kind}{bits}": f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
_LENGTH = struct.Struct("<I")
_MAX_OUTPUTS = 1000
_MAX_RANK = 2
_INT64 = np.dtype("<i8")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InferRequest:
    """A parsed request.

    Attributes:
        signature_name: signature of the model; empty for predictions.
        inputs: the only input.
        request_id: `id` of the request, which the response repeats.
        wanted: whether each output that the request names is binary, by name; empty for all outputs.
        is_binary: whether outputs that the request does not name are binary.
    """

    signature_name: str
    inputs: Sequence[InputValues]
    request_id: str
    wanted: Mapping[str, bool]
    is_binary: bool

    def items(self, version: ServedVersion, max_examples: int) -> list[Item]:
        """Reads the examples."""
        return items_of(self.inputs, version, max_examples)

    def response(self, outputs: Outputs, model_name: str, version: int) -> tuple[bytes, dict[str, str]]:
        """Writes the response: JSON, or JSON and binary tensors."""
        unknown = sorted(name for name in self.wanted if name not in outputs)
        if unknown:
            raise malformed(
                f"`outputs` must be among {sorted(outputs)}; got {unknown}. "
                f"{did_you_mean(unknown[0], outputs, otherwise='Name these, or none for all.')}"
            )
        wanted = self.wanted or dict.fromkeys(outputs, self.is_binary)
        tensors, tails = [], []
        for name, is_binary in wanted.items():
            values = outputs[name].astype(np.float32) if outputs[name].dtype.name == "bfloat16" else outputs[name]
            tensor: dict[str, Any] = {"name": name, "datatype": _datatype(values), "shape": list(values.shape)}
            if is_binary:
                tails.append(_binary(values))
                tensor["parameters"] = {"binary_data_size": len(tails[-1])}
            else:
                tensor["data"] = plain_rows(values.reshape([-1]))
            tensors.append(tensor)
        head = {"model_name": model_name, "model_version": str(version), "outputs": tensors}
        content = write_json({**({"id": self.request_id} if self.request_id else {}), **head})
        if not tails:
            return content, {"content-type": "application/json"}
        headers = {"content-type": "application/octet-stream", JSON_LENGTH_HEADER: str(len(content))}
        return b"".join([content, *tails]), headers


def read_infer_request(body: bytes, json_length: str | None, max_examples: int) -> InferRequest:
    """Reads the body of `infer`.

    Args:
        body: the whole body.
        json_length: value of the header `JSON_LENGTH_HEADER`; None if there are no binary tensors.
        max_examples: largest number of examples.

    Raises:
        Refusal: if the body does not have the protocol's form.
    """
    length = len(body) if json_length is None else _number_of_bytes(json_length, len(body), JSON_LENGTH_HEADER)
    content = read_object(body[:length])
    tail = body[length:]
    parameters = _object(content.get("parameters", {}), "parameters")
    signature_name = parameters.get("signature_name", "")
    request_id = content.get("id", "")
    for name, value in (("parameters.signature_name", signature_name), ("id", request_id)):
        if not is_text(value):
            raise malformed(f"`{name}` must be a Unicode text; got {shown(value)}. Write it as one.")
    tensors = content.get("inputs")
    if not isinstance(tensors, list) or len(tensors) != 1:
        raise malformed(
            f"`inputs` must be a list of one tensor, named one of {sorted(INPUTS)}; got {shown(tensors)}. Put all "
            "examples into one tensor of shape [n]."
        )
    wanted = {}
    outputs = _list(content.get("outputs", []), "outputs")
    if len(outputs) > _MAX_OUTPUTS:
        raise malformed(f"`outputs` must be at most {_MAX_OUTPUTS}; got {len(outputs)}. Name each once, or none.")
    for number, output in enumerate(outputs):
        place = f"outputs[{number}]"
        output_name = _object(output, place).get("name")
        if not isinstance(output_name, str):
            raise malformed(f"`{place}.name` must be the name of an output; got {shown(output_name)}. Name it.")
        wanted[output_name] = bool(
            _object(output.get("parameters", {}), f"{place}.parameters").get("binary_data", False)
        )
    return InferRequest(
        signature_name=signature_name,
        inputs=[_read_tensor(_object(tensors[0], "inputs[0]"), tail, max_examples)],
        request_id=request_id,
        wanted=wanted,
        is_binary=bool(parameters.get("binary_data_output", False)),
    )


def _read_tensor(tensor: Mapping[str, Any], tail: bytes, max_examples: int) -> InputValues:
    name, datatype, shape = (tensor.get(key) for key in ("name", "datatype", "shape"))
    if not isinstance(name, str) or name not in INPUTS:
        raise malformed(
            f"`inputs[0].name` must be one of {sorted(INPUTS)}; got {shown(name)}. "
            f"{did_you_mean(name, INPUTS, otherwise='Name the input.')}"
        )
    datatypes = ["BYTES", "INT64"] if name == IDS else ["BYTES"]
    if datatype not in datatypes:
        rule = " or ".join(map(repr, datatypes))
        raise malformed(f"`inputs[0].datatype` must be {rule} for {name!r}; got {shown(datatype)}. Send that type.")
    if (
        not isinstance(shape, list)
        or len(shape) > _MAX_RANK
        or not all(type(size) is int and size >= 0 for size in shape)
    ):
        raise malformed(f"`inputs[0].shape` must be [n]; got {shown(shape)}. Give the number of examples.")
    parameters = _object(tensor.get("parameters", {}), "inputs[0].parameters")
    place = "inputs[0].data"
    values: list[Any]
    if "binary_data_size" in parameters:
        size = _number_of_bytes(parameters["binary_data_size"], len(tail), "inputs[0].parameters.binary_data_size")
        values = (_integers if datatype == "INT64" else _from_binary)(tail[:size], place, max_examples)
    else:
        values = _list(tensor.get("data"), place)
        size = 0
        check_not_too_many(len(values), max_examples)
        if parameters.get("content_type") == "base64":
            values = [{"b64": value} if isinstance(value, str) else value for value in values]
    if size != len(tail):
        raise malformed(f"`{place}` must be all bytes after the JSON; got {len(tail)} bytes for {size}. Correct it.")
    check_not_too_many(len(values), max_examples)
    if shape not in ([len(values)], [len(values), 1]):
        raise malformed(f"`inputs[0].shape` must be [{len(values)}], as its data; got {shown(shape)}. Correct it.")
    return InputValues(kind=name, values=values, places=[f"{place}[{number}]" for number in range(len(values))])


def _number_of_bytes(value: Any, available: int, place: str) -> int:
    text = str(value)
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
    if isinstance(value, bool) or not 0 <= number <= available:
        raise malformed(f"`{place}` must be a number of bytes in [0, {available}]; got {shown(value)}. Count them.")
    return number


def _from_binary(data: bytes, place: str, max_examples: int) -> list[bytes]:
    """Splits the binary form of BYTES: each element after its length, 4 bytes, little-endian."""
    values: list[bytes] = []
    position = 0
    while position < len(data) and len(values) <= max_examples:
        start = position + _LENGTH.size
        stop = start + (_LENGTH.unpack_from(data, position)[0] if start <= len(data) else 0)
        if start > len(data) or stop > len(data):
            raise malformed(
                f"`{place}` must be elements after their lengths of 4 bytes; got {len(data)} bytes that end within "
                f"element {len(values)}. Write each length in little-endian order."
            )
        values.append(data[start:stop])
        position = stop
    return values


def _integers(data: bytes, place: str, max_examples: int) -> list[int]:
    """Reads the binary form of INT64: 8 bytes each, little-endian."""
    if len(data) % _INT64.itemsize:
        raise malformed(f"`{place}` must be integers of {_INT64.itemsize} bytes; got {len(data)} bytes. Write them so.")
    # One more than may be there is enough to be refused.
    integers: list[int] = np.frombuffer(data, _INT64)[: max_examples + 1].tolist()
    return integers


def _binary(values: npt.NDArray[Any]) -> bytes:
    if values.dtype == object:
        items = [value if isinstance(value, bytes) else str(value).encode() for value in values.reshape([-1])]
        return b"".join(_LENGTH.pack(len(item)) + item for item in items)
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _datatype(values: npt.NDArray[Any]) -> str:
    return _DATATYPES["string" if values.dtype == object else values.dtype.name]


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise malformed(f"`{place}` must be a JSON object; got {shown(value)}. Write it as an object.")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise malformed(f"`{place}` must be a list; got {shown(value)}. Write it as a list.")
    return value


def metadata_of(version: ServedVersion, model_name: str, versions: Sequence[int]) -> dict[str, Any]:
    """Describes a version in the form of `GET /v2/models/<name>`: its inputs, and the outputs for predictions."""
    outputs = version.signature("").output_specs
    return {
        "name": model_name,
        "versions": [str(number) for number in versions],
        "platform": "tensorflow_savedmodel",
        "inputs": [
            {
                "name": name,
                "datatype": version.seeds.datatype if name == IDS and version.seeds else "BYTES",
                "shape": [-1],
            }
            for name in INPUTS
            if name != IDS or version.seeds
        ],
        "outputs": [
            {
                "name": name,
                "datatype": _DATATYPES[spec.dtype.name],
                "shape": _shape_of(spec),
            }
            for name, spec in outputs.items()
        ],
    }


def _shape_of(spec: tf.TensorSpec) -> list[int]:
    """Returns the shape of an output; the protocol has no form for an unknown rank, but examples come first."""
    if spec.shape.rank is None:
        return [-1]
    return [-1 if size is None else size for size in spec.shape.as_list()]
