"""Pages of the public names, as the faces of the packages export them: the text comes from docstrings."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import griffe


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Room:
    """A page of names: those of a package's face, or those of them that a part of it defines."""

    title: str
    about: str
    package: str
    part: str = ""

    @property
    def uri(self) -> str:
        return f"reference/{'_'.join([*self.package.split('.'), *self.part.split('.')]).strip('_')}.md"


_OF_GRAPHS = "All names of `tfx_gnn.graph` are names of `tfx_gnn`, too: `import tfx_gnn as tfgnn`."
ROOMS = (
    _Room(title="Components and stages", about="Each step as a TFX component and as a function on folders.",
          package="components"),
    _Room(title="Sampling", about="What is sampled around each seed, and the samplers.", package="sampling"),
    _Room(title="Tables", about="Tables of nodes and edges, read and checked.", package="tables"),
    _Room(title="Snapshots", about="Databases and folders, copied to tables.", package="snapshot"),
    _Room(title="Prediction tasks", about="What is predicted, in words or SQL, as a table of seeds.",
          package="prediction_tasks"),
    _Room(title="Records", about="Files on disk between the steps.", package="records"),
    _Room(title="Transform", about="tf.Transform on graphs.", package="transform"),
    _Room(title="Training", about="Batches, the training loop, and what it writes.", package="training"),
    _Room(title="Models and tasks", about="Ready networks, convolutions, tasks, losses and metrics.",
          package="models"),
    _Room(title="Keras", about="Keras models on graphs.", package="keras"),
    _Room(title="Keras layers", about="Layers on graphs, under TF-GNN's names.", package="keras.layers"),
    _Room(title="Feature encoders", about="Raw features become initial states of nodes.",
          package="keras.feature_encoders"),
    _Room(title="Graphs: values", about=f"Graphs as values of TensorFlow. {_OF_GRAPHS}", package="graph",
          part="tensor"),
    _Room(title="Graphs: constants", about=f"Names and aliases of types. {_OF_GRAPHS}", package="graph",
          part="graph_constants"),
    _Room(title="Graphs: schemas", about=f"What a graph consists of. {_OF_GRAPHS}", package="graph", part="schema"),
    _Room(title="Graphs: tf.Examples", about=f"Graphs from tf.Examples and back. {_OF_GRAPHS}", package="graph",
          part="codec"),
    _Room(title="Graphs: operations", about=f"Pool, broadcast, readout, edges. {_OF_GRAPHS}", package="graph",
          part="ops"),
    _Room(title="Other libraries", about="Graphs from pandas, NetworkX and PyG, and back. Also names of `tfx_gnn`.",
          package="interchange"),
    _Room(title="Graphs: batches", about=f"Packing, padding and taking apart. {_OF_GRAPHS}", package="graph",
          part="batching"),
    _Room(title="Graphs: examples in memory", about=f"Graphs of NumPy arrays, as in PyG. {_OF_GRAPHS}",
          package="graph", part="data"),
    _Room(title="Distribution", about="Strategies of tf.distribute, and sharded input.", package="distribution"),
    _Room(title="Serving", about="Signatures, requests, and checks of a SavedModel.", package="serving"),
    _Room(title="HTTP server", about="A pushed model behind HTTP.", package="serving.server"),
    _Room(title="TPU check", about="Finds what a TPU would reject.", package="tpu_check"),
    _Room(title="GraphLearn's names", about="GraphLearn's data layer under its names.", package="graphlearn"),
)  # fmt: skip
# Modules of the package of pipelines have no face: these names are what a task is made of.
_PIPELINES = (
    "task.PipelineTask",
    "config.PipelineConfig",
    "assembly.build_components",
    "assembly.build_pipeline",
    "local_runs.run_locally",
    "local_runs.run_on_beam",
    "compilation.compile_to",
)


def load(root: Path) -> griffe.Module:
    """Reads the library's source, without importing it."""
    package = griffe.load(
        "tfx_gnn",
        search_paths=[root / "components"],
        docstring_parser="google",
        allow_inspection=False,
    )
    assert isinstance(package, griffe.Module)
    return package


def pages(package: griffe.Module) -> dict[str, str]:
    """Path among the pages to text."""
    made = {room.uri: _page(room, package) for room in ROOMS}
    made["reference/pipelines.md"] = _text(
        "Pipelines", "A pipeline's task and settings.", [f"tfx_gnn_pipelines.{name}" for name in _PIPELINES]
    )
    missing = sorted(set(_faces(package)) - {room.package for room in ROOMS})
    if missing:
        raise ValueError(f"`ROOMS` must name every package with a face; got none for {missing}. Add them.")
    return made


def index(made: dict[str, str]) -> str:
    """The first page of the section: all others with their first line."""
    lines = ["# Reference", "", "Made of the code and its docstrings.", "", "| page | about |", "|---|---|"]
    for uri, text in made.items():
        title, about = text.removeprefix("# ").split("\n")[:3:2]
        lines.append(f"| [{title}]({uri.removeprefix('reference/')}) | {about} |")
    return "\n".join([*lines, ""])


def _page(room: _Room, package: griffe.Module) -> str:
    names = _face(package, room.package)
    prefix = f"tfx_gnn.{room.package}.{room.part}" if room.part else "tfx_gnn"
    paths = []
    for name in names:
        path = package[room.package][name].canonical_path
        # Messages made by protoc have no docstrings, modules have pages of their own.
        if "_pb2" in path or package[room.package][name].is_module:
            continue
        if path.startswith(f"{prefix}.") or path == prefix:
            paths.append(f"tfx_gnn.{room.package}.{name}")
    if not paths:
        raise ValueError(f"`ROOMS` must name parts with public names; got {room.package!r}, {room.part!r}.")
    return _text(room.title, room.about, paths)


def _text(title: str, about: str, paths: list[str]) -> str:
    return "\n\n".join([f"# {title}", about, *(f"::: {path}" for path in paths)]) + "\n"


def _faces(package: griffe.Module) -> list[str]:
    root = Path(str(package.filepath)).parent
    folders = [path.parent.relative_to(root).parts for path in sorted(root.rglob("__init__.pyi"))]
    # `components` exports what the folders of its components do.
    return [".".join(folder) for folder in folders if folder and not (folder[0] == "components" and folder[1:])]


def _face(package: griffe.Module, name: str) -> list[str]:
    """The names that a package exports, in alphabetical order."""
    folder = Path(str(package[name].filepath)).parent
    stub = folder / "__init__.pyi"
    if not stub.exists():
        return sorted(str(export) for export in package[name].exports or [])
    imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    return sorted({alias.asname or alias.name for node in imports for alias in node.names})
