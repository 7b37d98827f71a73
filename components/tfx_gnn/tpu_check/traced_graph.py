"""All operations of a traced step, including those in loops, branches and functions, with their origin.

This is the only file that follows TensorFlow's private links from an operation to the functions
that it calls; they are the same in TensorFlow 2.16 and 2.21.
"""

from __future__ import annotations

import itertools
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

_GRADIENT = "gradient_tape/"
_BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
_LIBRARIES = ("tensorflow", "tf_keras", "tfx_gnn")


class StepGraph:
    """The operations on which the results or effects of a traced function depend.

    Stack frames in the source file `boundary`, and the frames outside of them, belong to the caller that traced the
    step.
    """

    def __init__(self, concrete: Any, module: tf.Module | None, boundary: str) -> None:
        self._boundary = boundary
        self._layers = {} if module is None else {part.name: type(part).__name__ for part in _parts(module)}
        self._captures = {id(outer): inner.op for outer, inner in concrete.graph.captures}
        self._callers: dict[Any, tf.Operation] = {}
        self._bodies: dict[tf.Operation, list[Any]] = {}
        self.operations: list[tf.Operation] = []
        self._add(concrete.graph)
        self._by_name: dict[str, tf.Operation] = {}
        self._forward_scopes: dict[str, tf.Operation] = {}
        for op in self.operations:
            self._by_name.setdefault(op.name, op)
            if _GRADIENT not in op.name:
                for scope in itertools.accumulate(op.name.split("/"), "{}/{}".format):
                    self._forward_scopes.setdefault(scope, op)

    def find(self, name: str, op_type: str = "") -> tf.Operation | None:
        """Finds an operation by XLA's name for it, which may be prefixed with the calls that lead to it."""
        parts = name.split("/")
        for start in range(len(parts)):
            op = self._by_name.get("/".join(parts[start:]))
            if op is not None and op_type in ("", op.type):
                return op
        return None

    def place(self, op: tf.Operation) -> tuple[str, str]:
        """Returns what created an operation: layer or function, and "file:line", as in `TpuProblem`.

        For an operation of a gradient, this is what created the corresponding forward operation.
        """
        op = self._forward(op)
        function, where = self._frame(op)
        layer = self._layer(op)
        if layer:
            return layer, where
        return (f"function '{function}'" if function else f"scope '{op.name}'"), where

    def sources(self, op: tf.Operation) -> Iterator[tf.Operation]:
        """Yields all operations that an operation depends on, nearest first, across functions."""
        seen = {op}
        front: list[tf.Operation] = [op]
        while front:
            front = [source for one in front for source in self._direct_sources(one) if source not in seen]
            # An operation may occur several times.
            front = list(dict.fromkeys(front))
            seen.update(front)
            yield from front

    def origin_of_gradient(self, op: tf.Operation) -> tf.Operation | None:
        """Finds the forward operation whose gradient reaches an operation outside of the gradient's computation."""
        if self.is_of_gradient(op):
            return None
        for source in self.sources(op):
            if self.is_of_gradient(source):
                return self._forward(source)
        return None

    def first_use(self, variable: tf.Variable) -> tuple[str, str]:
        """Returns what first uses a variable, in the form of `place`."""
        argument = self._captures.get(id(variable.handle))
        for op in self.operations:
            for tensor in op.inputs if op.type != "Placeholder" and op not in self._bodies else ():
                if tensor.dtype == tf.resource and argument in (tensor.op, *self.sources(tensor.op)):
                    return self.place(op)
        return "the model", ""

    def is_of_gradient(self, op: tf.Operation) -> bool:
        """Tells whether an operation belongs to the computation of a gradient."""
        return _GRADIENT in op.name

    def calls_functions(self, op: tf.Operation) -> bool:
        """Tells whether an operation is a loop, a branch or a call."""
        return op in self._bodies

    def has_branches_of_other_shapes(self, op: tf.Operation) -> bool:
        """Tells whether an operation is a branch whose cases return different static shapes."""
        if op.type not in _BRANCHES:
            return False
        results = zip(*(body.outputs for body in self._bodies.get(op, ())), strict=True)
        shapes = ([tensor.shape for tensor in cases if tensor.shape.is_fully_defined()] for cases in results)
        return any(len(set(map(tuple, known))) > 1 for known in shapes)

    def _add(self, graph: Any) -> None:
        live = _live_operations(graph)
        self.operations += live
        for op in live:
            for body in _called_graphs(op):
                self._bodies.setdefault(op, []).append(body)
                if body not in self._callers:
                    self._callers[body] = op
                    self._add(body)

    def _direct_sources(self, op: tf.Operation) -> list[tf.Operation]:
        found = [tensor.op for tensor in op.inputs]
        for body in self._bodies.get(op, ()):
            found += [tensor.op for tensor in body.outputs]
        caller = self._callers.get(op.graph) if op.type == "Placeholder" else None
        if caller is not None:
            # For a branch, the condition precedes the arguments of its cases.
            skipped = len(caller.inputs) - len(op.graph.inputs)
            found += [
                caller.inputs[position + skipped].op
                for position, tensor in enumerate(op.graph.inputs)
                if tensor.op is op and position + skipped >= 0
            ]
        return found

    def _forward(self, op: tf.Operation) -> tf.Operation:
        if _GRADIENT not in op.name:
            return op
        parts = op.name[op.name.rindex(_GRADIENT) + len(_GRADIENT) :].split("/")
        for end in range(len(parts), 0, -1):
            found = self._forward_scopes.get("/".join(parts[:end]))
            if found is not None:
                return found
        return op

    def _layer(self, op: tf.Operation | None) -> str:
        while op is not None:
            for scope in reversed(op.name.split("/")):
                if scope in self._layers:
                    return f"{self._layers[scope]} '{scope}'"
            op = self._callers.get(op.graph)
        return ""

    def _frame(self, op: tf.Operation | None) -> tuple[str, str]:
        """Function and "file:line" of the innermost line of user code, else of a library other than TensorFlow."""
        of_package = of_library = ("", "")
        while op is not None:
            for frame in reversed(op.traceback or ()):
                if frame.filename == self._boundary:
                    break
                line = f"{_short_path(frame.filename)}:{frame.lineno}"
                library = _library_of(frame.filename)
                if library is None:
                    return frame.name, line
                # Installed packages may be the user's, too.
                if library == "installed":
                    of_package = of_package if of_package[1] else (frame.name, line)
                elif library not in ("tensorflow", "python"):
                    of_library = of_library if of_library[1] else ("", line)
            op = self._callers.get(op.graph)
        return of_package if of_package[1] else of_library


def _parts(module: tf.Module) -> Iterable[tf.Module]:
    return (module, *module.submodules)


def _live_operations(graph: Any) -> list[tf.Operation]:
    """Operations that a function's results or effects need; other operations are never compiled."""
    wanted = [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    live = set(wanted)
    while wanted:
        op = wanted.pop()
        for source in itertools.chain((tensor.op for tensor in op.inputs), op.control_inputs):
            if source not in live:
                live.add(source)
                wanted.append(source)
    return [op for op in graph.get_operations() if op in live]


def _called_graphs(op: tf.Operation) -> Iterator[Any]:
    for attribute in op.op_def.attr:
        if attribute.type in ("func", "list(func)"):
            value = op.get_attr(attribute.name)
            for function in value if isinstance(value, list) else [value]:
                if function.name:
                    yield op.graph._get_function(function.name).graph  # noqa: SLF001 - there is no public way.


def _library_of(filename: str) -> str | None:
    """Names the library that a source file belongs to; None for user code."""
    if filename.startswith("<") or "__autograph_generated_file" in filename:
        return "python"
    for name in _LIBRARIES:
        folder = _folder_of(name)
        if folder and filename.startswith(folder):
            return name
    if any(filename.startswith(folder + os.sep) for folder in _package_folders()):
        return "installed"
    return "python" if filename.startswith(sysconfig.get_path("stdlib") + os.sep) else None


def _folder_of(library: str) -> str:
    file = getattr(sys.modules.get(library), "__file__", None)
    return os.path.dirname(file) + os.sep if file else ""


def _package_folders() -> list[str]:
    return [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]


def _short_path(filename: str) -> str:
    for folder in (*_package_folders(), os.getcwd()):
        if filename.startswith(folder + os.sep):
            return filename[len(folder) + 1 :]
    return filename
