"""What the ready-made networks take as `hyperparameters`, read from their source without importing TensorFlow."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tfx_gnn.io.option_schema import OptionEntry, section_texts

_REFERENCE = re.compile(r"as for `(\w+)`(:?)\s*(.*)", re.DOTALL)
_SECTIONS = ("Args", "Init args")
_KINDS = {"str": "text", "bool": "true or false", "int": "integer", "float": "number", "None": "null"}
_KINDS |= {"FieldName": "text", "NodeSetName": "text", "IncidentNodeTag": "0 (source) or 1 (target)"}
_LISTS = ("Collection", "Sequence")
_MODEL_FNS = "tfx_gnn.models.model_fns"
_EGO_MAKER = "_ego_model"
_SET_BY_MODEL_FN = {
    "readout_node_sets": ("null", " Unless given, set by the task."),
    "read_nodes_only": ("null", " Unless given, set by the task."),
    "edge_feature": ("null", " Unless given, all features, encoded."),
    "receiver_tags": ("[0, 1]", ""),
}
"""Defaults that differ from those of the networks, or are no literals there, and what to say of them."""


class _Hyperparameter(NamedTuple):
    name: str
    kind: str
    default: str
    meaning: str


_OF_ALL = (
    _Hyperparameter("features", "mapping", "{}", "fields of FeatureEncoderOptions: how features are encoded."),
    _Hyperparameter(
        "input_dropout_rate",
        "number",
        "0.0",
        "fraction of the encoded features' values that training drops.",
    ),
    _Hyperparameter("l2", "number", "0.0", "factor of the sum of squares of all matrices that is added to the loss."),
    _Hyperparameter("learning_rate", "number", "0.001", "learning rate of the trainer's optimizer."),
)
_OF_ALL_BUT_EGO = (
    _Hyperparameter("sort_edges", "true or false", "true", "whether training sorts edges by target, which is faster."),
    _Hyperparameter(
        "shared_node_sets", "list of list of text", "[]", "groups of node sets that share all weights, as one node set."
    ),
)
"""Hyperparameters that are no arguments of the networks."""


def list_hyperparameters(prefix: str = "") -> list[OptionEntry]:
    """Lists the hyperparameters of the networks in `tfx_gnn.models.model_fns`.

    Args:
        prefix: what to put before every name.

    Returns:
        The hyperparameters, those of the same name together; one that networks have with several defaults or meanings
        is there several times. Each meaning ends with the networks that take it.
    """
    taking: dict[_Hyperparameter, list[str]] = {}
    networks = _hyperparameters_by_network()
    for network, hyperparameters in networks.items():
        for hyperparameter in hyperparameters:
            taking.setdefault(hyperparameter, []).append(network)
    names = [hyperparameter.name for hyperparameter in taking]
    return [
        OptionEntry(
            name=f"{prefix}{one.name}",
            kind=one.kind,
            default=one.default,
            meaning=f"{one.meaning} Taken by {_in_words(taking[one], list(networks))}.",
        )
        for one in sorted(taking, key=lambda one: names.index(one.name))
    ]


def hyperparameter_defaults(model_fn: str) -> dict[str, Any]:
    """Reads the defaults of the hyperparameters of a ready-made network.

    Args:
        model_fn: reference such as "tfx_gnn.models.model_fns:graph_sage".

    Returns:
        Defaults by name; empty for a function of the user's own.
    """
    module, _, name = model_fn.partition(":")
    if module != _MODEL_FNS:
        return {}
    return {one.name: json.loads(one.default) for one in _hyperparameters_by_network().get(name, ()) if one.default}


def _in_words(taking: list[str], networks: list[str]) -> str:
    left_out = [network for network in networks if network not in taking]
    if len(left_out) < len(taking):
        return f"all networks but {', '.join(left_out)}" if left_out else "all networks"
    return ", ".join(taking)


@functools.cache
def _hyperparameters_by_network() -> dict[str, list[_Hyperparameter]]:
    folder = Path(__file__).parent
    defined = dict(_definitions(folder))
    found: dict[str, list[_Hyperparameter]] = {}
    defaults: dict[str, Any] = {}
    for statement in ast.parse((folder / "model_fns.py").read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="_DEFAULTS")], value=value):
                defaults = ast.literal_eval(value)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="_model_fn"), args=[ast.Name(id=maker), ast.Attribute(attr=network)]),
            ):
                is_ego = maker == _EGO_MAKER
                given = {key: value for key, value in defaults.items() if not (is_ego and key == "num_layers")}
                arguments = _arguments(network, defined, given)
                found[name] = [*arguments, *_OF_ALL, *(() if is_ego else _OF_ALL_BUT_EGO)]
    return found


def _definitions(folder: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Finds the functions and classes of the files in a folder."""
    for path in sorted(folder.rglob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                yield statement.name, statement


def _arguments(
    network: str, defined: Mapping[str, ast.FunctionDef | ast.ClassDef], defaults: Mapping[str, Any]
) -> Iterator[_Hyperparameter]:
    """Lists the arguments of a network, with the defaults that its model function has."""
    function = defined[network]
    assert isinstance(function, ast.FunctionDef)
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        name = argument.arg
        shown, remark = _SET_BY_MODEL_FN.get(name, ("", ""))
        if not shown:
            value = defaults[name] if name in defaults else ast.literal_eval(default) if default else None
            shown = json.dumps(value)
        yield _Hyperparameter(name, _kind(argument.annotation), shown, f"{_meaning(name, network, defined)}{remark}")


def _meaning(name: str, of: str, defined: Mapping[str, ast.FunctionDef | ast.ClassDef]) -> str:
    """Reads what an argument means, where its text says so or where it says "as for" another."""
    docstring = ast.get_docstring(defined[of]) if of in defined else None
    texts = [section_texts(docstring or "", section).get(name, "") for section in _SECTIONS]
    text = next(filter(None, texts), "")
    reference = _REFERENCE.match(text)
    if not reference:
        return text
    if reference[2]:
        return reference[3]
    there = _meaning(name, reference[1], defined)
    return there.rstrip(".") + reference[3] if there else text


def _kind(annotation: ast.expr | None) -> str:
    match annotation:
        case ast.BinOp(left=left, right=right):
            return f"{_kind(left)} or {_kind(right)}"
        case ast.Subscript(value=ast.Name(id=holder), slice=item) if holder in _LISTS:
            return f"list of {_kind(item)}"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return _KINDS.get(name, name)
    return _KINDS[str(getattr(annotation, "value", None))]
