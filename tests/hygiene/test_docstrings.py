"""Every public name says what it takes, gives and refuses, in Google's form and with shapes."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
from pathlib import Path

import pytest
import tf_keras

import tfx_gnn
from tfx_gnn.graph import graph_constants, proto

_NAMES = [
    line
    for line in (Path(__file__).parent / "public_names.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
_SECTIONS = {"Args", "Attributes", "Call args", "Example", "Init args", "Raises", "Returns", "Yields"}
_HEADER = re.compile(r"^([A-Z][A-Za-z ]*):$", re.MULTILINE)
_ENTRY = re.compile(r"^    \*{0,2}(\w+): (?=\S)", re.MULTILINE)
_TENSORS = re.compile(r"\btf\.(?:Ragged)?Tensor\b|\bFields?\b|\bFieldOrFields\b|\bGraphTensor\b")
_CALLABLE = re.compile(r"Callable\[.*\]")
# "a scalar graph", "of shape [num_nodes, ...]", "as for `pool`".
_SHAPE = re.compile(r"\bshapes?\b|\b[Ss]calar|\[[^\]`']*\]|\bbatch\b|\bas for\b|\bas above\b")


def _resolve(name):
    return functools.reduce(getattr, name.split("."), tfx_gnn)


def _is_ours(value):
    """Whether it was written here, by hand."""
    module = getattr(value, "__module__", "")
    return module.split(".")[0] == "tfx_gnn" and not module.endswith("_pb2")


_FUNCTIONS = [name for name in _NAMES if inspect.isfunction(_resolve(name))]
_CLASSES = [name for name in _NAMES if inspect.isclass(_resolve(name)) and _is_ours(_resolve(name))]
_LAYERS = [name for name in _CLASSES if issubclass(_resolve(name), tf_keras.layers.Layer)]
_MESSAGES = [name for name in _NAMES if name.startswith("proto.") or name in ("Feature", "GraphSchema")]
_VALUES = [name for name in _NAMES if name not in {*_FUNCTIONS, *_CLASSES, *_MESSAGES}]


def _plain_function(member):
    """The function that a class holds as a method of any kind, or as a property; None for other values."""
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return inspect.unwrap(function) if inspect.isfunction(function) else None


def _methods():
    for name in _CLASSES:
        for member in sorted(set(dir(_resolve(name)))):
            owner = next((base for base in _resolve(name).__mro__ if member in vars(base)), None)
            if not member.startswith("_") and _is_ours(owner) and _plain_function(vars(owner)[member]):
                yield f"{name}.{member}"


def _function(name):
    place, _, member = name.rpartition(".")
    is_method = inspect.isclass(_resolve(place) if place else tfx_gnn)
    return _plain_function(inspect.getattr_static(_resolve(place), member) if is_method else _resolve(name))


def _sections(docstring):
    """Header to text of each section; the description has the header ""."""
    parts = _HEADER.split(docstring)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def _entries(text):
    """Name to description of each entry of a section."""
    parts = _ENTRY.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _parameters(function):
    """Name to annotation of each parameter that has a name for its callers."""
    hidden = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        p.name: str(p.annotation)
        for p in inspect.signature(function).parameters.values()
        if p.kind not in hidden and p.name not in ("self", "cls")
    }


def _raised(function):
    """The errors that the function's own body raises; what it calls is left to the reviewer."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    errors = [error.func if isinstance(error, ast.Call) else error for error in raised]
    # Neither `raise error` again nor `raise type(error)(...)` names one.
    return {ast.unparse(error) for error in errors if re.fullmatch(r"(\w+\.)*[A-Z]\w+", ast.unparse(error))}


def _faults_of_form(docstring):
    sections = _sections(docstring)
    summary = docstring.split("\n\n")[0].strip()
    if not summary.endswith("."):
        yield f"the summary must be a sentence; got {summary!r}"
    for header in set(sections) - _SECTIONS - {""}:
        yield f"sections are {sorted(_SECTIONS)}; got {header!r}"


def _faults_of_parameters(entries, parameters):
    if [name for name in entries if name in parameters] != list(parameters):
        yield f"parameters are {list(parameters)}; told of are {list(entries)}"
    for name, annotation in parameters.items():
        if _TENSORS.search(_CALLABLE.sub("", annotation)) and not _SHAPE.search(entries.get(name, "")):
            yield f"`{name}` needs a shape"


def _faults_of_result(annotation, sections):
    text = sections.get("Returns", "") + sections[""].split("\n\n")[0]
    if _TENSORS.search(annotation) and not _SHAPE.search(text):
        yield "the result needs a shape"


def _faults_of_errors(function, sections):
    for error in _raised(function):
        if error not in sections.get("Raises", ""):
            yield f"Raises must tell of {error}"


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_is_documented(name):
    function, docstring = _function(name), inspect.getdoc(_resolve(name))
    sections = _sections(docstring)

    faults = [
        *_faults_of_form(docstring),
        *_faults_of_parameters(_entries(sections.get("Args", "")), _parameters(function)),
        *_faults_of_result(str(function.__annotations__.get("return")), sections),
        *_faults_of_errors(function, sections),
    ]

    assert faults == []


@pytest.mark.parametrize("name", [*_methods()])
def test_a_method_is_documented(name):
    function, docstring = _function(name), inspect.getdoc(_resolve(name))
    sections = _sections(docstring)

    faults = [
        *_faults_of_form(docstring),
        *_faults_of_parameters(_entries(sections.get("Args", "")), _parameters(function)),
        *_faults_of_errors(function, sections),
    ]

    assert faults == []


def _fields(cls):
    """Fields of a named tuple or a dataclass."""
    is_dataclass = dataclasses.is_dataclass(cls)
    return [field.name for field in dataclasses.fields(cls)] if is_dataclass else list(getattr(cls, "_fields", ()))


@pytest.mark.parametrize("name", sorted(set(_CLASSES) - set(_LAYERS)))
def test_a_class_is_documented(name):
    docstring = inspect.getdoc(_resolve(name))
    entries = _entries(_sections(docstring).get("Attributes", ""))

    assert [*_faults_of_form(docstring)] == []
    assert list(entries) == _fields(_resolve(name))


@pytest.mark.parametrize("name", _LAYERS)
def test_a_layer_is_documented(name):
    """The class says all: how it is made, how it is called, and what it gives."""
    layer, docstring = _resolve(name), inspect.getdoc(_resolve(name))
    sections = _sections(docstring)
    is_made_by_itself = _is_ours(next(base for base in layer.__mro__ if "__init__" in vars(base)))

    faults = [
        *_faults_of_form(docstring),
        *_faults_of_parameters(
            _entries(sections.get("Init args", "")), _parameters(layer.__init__) if is_made_by_itself else {}
        ),
        *_faults_of_parameters(_entries(sections.get("Call args", "")), _parameters(layer.call)),
        *_faults_of_result("tf.Tensor", sections),
        *(_faults_of_errors(layer.__init__, sections) if is_made_by_itself else ()),
    ]

    assert faults == []


def _commented_names(module):
    """Names that a module assigns, each under a comment, or in a block whose first line is under one."""
    lines = Path(module.__file__).read_text().splitlines()
    names, is_commented = set(), False
    for line in lines:
        assigned = re.match(r"(\w+) = ", line)
        if not line.strip():
            is_commented = False
        elif line.startswith("#"):
            is_commented = True
        elif assigned and is_commented:
            names.add(assigned[1])
    return names


def test_constants_and_aliases_stand_under_a_comment():
    assert set(_VALUES) - _commented_names(graph_constants) == set()


@pytest.mark.parametrize("name", _MESSAGES)
def test_a_message_stands_under_a_comment(name):
    schema = (Path(proto.__file__).parent / "graph_schema.proto").read_text()

    assert re.search(rf"^ *//.*\n *(?:message|enum) {name.removeprefix('proto.')} ", schema, re.MULTILINE)
