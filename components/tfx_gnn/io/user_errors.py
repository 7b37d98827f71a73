"""Explains errors in the user's code: which line, what is there instead, and what to do."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.util
import inspect
import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import tfx_gnn
from tfx_gnn.io.suggestions import closest_names, did_you_mean

_EAGER = (
    "symbolic",
    "OperatorNotAllowedInGraphError",
    "numpy() is only available",
    "Symbolic",
    "__array__",
    "KerasTensor",
)
"""Parts of the messages of TensorFlow and Keras about a value that is not known yet."""

_OF_THE_MACHINE = ("MemoryError", "ResourceExhaustedError")
"""Errors that are not the code's; the stages explain them."""

_SHOWN = 400
_IN_A_MESSAGE = re.compile(r'File "([^"]+)", line (\d+)')
_LAST_ERROR = re.compile(r"^\s*\w+(?:Error|Exception): (.+(?:\n(?!\s*$).*)*)", re.MULTILINE)
_ENCOUNTERED = re.compile(r"Exception encountered when calling layer .*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class UserPlace:
    """A line of the user's code.

    Attributes:
        path: the file.
        line: number of the line, from 1.
    """

    path: str
    line: int

    @property
    def source(self) -> str:
        """The text of the line."""
        return linecache.getline(self.path, self.line).strip()

    def __str__(self) -> str:
        """The file, relative to the current folder if it is below that, and the line."""
        path = os.path.relpath(self.path)
        return f"{self.path if path.startswith('..') else path}:{self.line}"

    @property
    def words(self) -> str:
        """Place and text of the line, for messages."""
        return f"{self} (`{self.source}`)" if self.source else str(self)


class UserCodeError(ValueError):
    """The user's function failed; the message says where, and what to do."""


def is_house_message(message: str) -> bool:
    """Tells whether a message says itself what must hold, what is there instead and what to do."""
    return message.startswith("`") and " must " in message


@contextlib.contextmanager
def user_errors_explained(argument: str, rule: str) -> Iterator[None]:
    """Adds the line of the user's code to errors that are raised while it runs.

    Errors with a message of this library keep their type, and others become a `UserCodeError`.

    Args:
        argument: option that names the function, such as "preprocessing_fn".
        rule: what the function must do, such as "run on the features of the schema".
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UserCodeError) or type(error).__name__ in _OF_THE_MACHINE:
            raise
        message = explain(error, argument, rule)
        if is_house_message(plain_message(error)):
            error.args = (message, *error.args[1:])
            raise
        raise UserCodeError(message) from error


def explain(error: BaseException, argument: str, rule: str) -> str:
    """Describes an error of the user's code in one sentence for each of rule, finding and advice."""
    found = plain_message(error)
    place = place_of_error(error)
    if is_house_message(found):
        return with_place(found, place)
    name = type(error).__name__
    text = str(error.msg) if isinstance(error, SyntaxError) else _shortened(found)
    text = repr(text) if isinstance(error, KeyError) else text
    where = f" at {place.words}" if place else ""
    return f"`{argument}` must {rule}; got {name}: {text}{where}. {_advice(error, text, place)}"


def with_place(message: str, place: UserPlace | None) -> str:
    """Appends a place to a message, unless it is named there already."""
    if place is None or str(place) in message or f"{place.path}, line {place.line}" in message:
        return message
    return f"{message} See {place.words}."


def plain_message(error: BaseException) -> str:
    """Returns the message of an error without decorations of TensorFlow and Keras."""
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0]).strip()  # `str` would quote it
    return str(getattr(error, "message", "") or error).strip()


def place_of_error(error: BaseException) -> UserPlace | None:
    """Finds the innermost line of the user's code in the traceback of an error or of its causes."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno and is_user_file(error.filename):
        return UserPlace(path=error.filename, line=error.lineno)
    frame = _user_frame(error)
    if frame is not None:
        return UserPlace(path=frame[0].f_code.co_filename, line=frame[1])
    # AutoGraph and Keras rewrite functions, and name the line in the message.
    for path, line in reversed(_IN_A_MESSAGE.findall(str(error))):
        if is_user_file(path):
            return UserPlace(path=path, line=int(line))
    return place_of_error(error.__cause__) if error.__cause__ else None


def place_of_function(function: Callable[..., Any] | None) -> UserPlace | None:
    """Finds where a function of the user is defined; None for others."""
    code = getattr(inspect.unwrap(function), "__code__", None) if function else None
    if code is None or not is_user_file(code.co_filename):
        return None
    return UserPlace(path=code.co_filename, line=code.co_firstlineno)


def place_of_result(function: Callable[..., Any] | None) -> UserPlace | None:
    """Finds the last line of a function of the user that makes what it returns.

    That is its last return, or the assignment of the name in it; its head if nothing is returned. None for functions of
    others.
    """
    head = place_of_function(function)
    if function is None or head is None:
        return None
    name = inspect.unwrap(function).__name__
    try:
        tree = ast.parse(Path(head.path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return head  # The file has been changed or removed since the function was imported.
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    # The first below the head, which is the line of a decorator if there is one.
    first = min((node for node in found if node.lineno >= head.line), key=lambda node: node.lineno, default=None)
    nodes = list(_own_nodes(first)) if first else []
    results = [node for node in nodes if isinstance(node, ast.Return)]
    if not results:
        return head
    value = results[-1].value
    made = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(value, ast.Name) and value.id in map(_name, node.targets)
    ]
    return UserPlace(path=head.path, line=max(made, default=results[-1].lineno))


def source_files(references: Iterable[str]) -> list[str]:
    """Lists the Python files beside the modules of references such as "package.module:function", imported or not."""
    folders: dict[str, None] = {}
    for reference in references:
        top_level = reference.partition(":")[0].partition(".")[0]
        try:
            spec = importlib.util.find_spec(top_level) if top_level else None
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.origin and is_user_file(spec.origin):
            is_package = spec.submodule_search_locations is not None
            folders[os.path.dirname(spec.origin) if is_package else spec.origin] = None
    found = [sorted(Path(folder).rglob("*.py")) if os.path.isdir(folder) else [Path(folder)] for folder in folders]
    return [str(path) for paths in found for path in paths if is_user_file(str(path))]


def is_user_file(path: str) -> bool:
    """Tells whether a file is neither of Python, nor of an installed package, nor of this library."""
    if path.startswith("<") or not path.endswith(".py"):
        return False
    resolved = os.path.realpath(path)
    library = Path(tfx_gnn.__file__).resolve().parent
    own = (library, library.parents[1] / "pipelines" / "tfx_gnn_pipelines", library.parent / "tfx_gnn_pipelines")
    if any(resolved.startswith(f"{folder}{os.sep}") for folder in own):
        return f"{os.sep}tfx_gnn_pipelines{os.sep}tasks{os.sep}" in resolved
    foreign = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    foreign |= {os.path.dirname(os.path.realpath(os.__file__))}
    return not any(
        resolved.startswith(f"{os.path.realpath(folder)}{os.sep}") for folder in foreign
    ) and "__autograph_generated_file" not in os.path.basename(path)


def _user_frame(error: BaseException) -> tuple[FrameType, int] | None:
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_user_file(frame.f_code.co_filename):
            found = frame, line
    return found


def _advice(error: BaseException, text: str, place: UserPlace | None) -> str:
    if isinstance(error, KeyError):
        return _advice_on_key(error, text.strip("'"))
    line = "that line" if place else "it"
    for kind, advice in (
        (SyntaxError, "Correct that line, or the one before it."),
        (ModuleNotFoundError, "Install the package that holds it, or correct the import."),
        (ImportError, "Correct the import."),
    ):
        if isinstance(error, kind):
            return advice
    for parts, advice in (
        (
            _EAGER,
            (
                "Values are not known yet when the function is traced: use TensorFlow's operations, such as "
                "tf.math.log and tf.where, instead of NumPy, `.numpy()`, float() or an `if` on a tensor."
            ),
        ),
        (
            ("matching shapes",),
            "Give all inputs of that layer the same shape but for the last dimension, as tf.reshape or a Dense do.",
        ),
        (("expected", "dtype"), f"Correct {line}, or the type that the graph schema gives the column."),
    ):
        if any(part in f"{type(error).__name__} {text}" for part in parts):
            return advice
    return f"Correct {line}."


def _advice_on_key(error: KeyError, key: str) -> str:
    found = _user_frame(error)
    mapping = _mapping_without(key, found[0]) if found else None
    if mapping is None:
        return "Check the spelling of the key."
    name, keys = mapping
    return f"`{name}` has {sorted(map(str, keys))}. {did_you_mean(key, keys)}"


def _mapping_without(key: object, frame: FrameType) -> tuple[str, list[object]] | None:
    """Finds the mapping among the variables of a frame that lacks a key and has one most like it."""
    local = {name: getattr(value, "features", value) for name, value in frame.f_locals.items()}
    candidates = [
        (name, list(value))
        for name, value in local.items()
        if isinstance(value, Mapping) and value and key not in value
    ]
    alike = [one for one in candidates if closest_names(key, one[1])]
    best = alike or candidates
    return best[-1] if best else None  # the variable that was set last


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a function in their order, but for those of functions in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield node
            yield from _own_nodes(node)


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


def _shortened(text: str) -> str:
    # Keras frames a message with the layer before it, and with the layer's arguments after it.
    text = text.partition("Call arguments received")[0]
    traced = _LAST_ERROR.findall(text) if "in user code" in text else []
    text = traced[-1] if traced else _ENCOUNTERED.sub("", text)
    joined = " ".join(text.split()).rstrip(".")
    return joined if len(joined) <= _SHOWN else f"{joined[:_SHOWN]}..."
