"""Embeddings of examples on disk, in the layout that nearest-neighbor libraries take, with the model they are from.

A folder of embeddings holds `manifest.json` and either `embeddings.npy`, a float32 matrix in C order, with `ids.npy`,
or `embeddings.parquet` with columns `id` and `embedding`. Vectors of different models mean different things, so the
manifest has a fingerprint of the model, the same as a blessing has, and readers compare it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import os
from collections.abc import Iterable, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.io.json_shapes import read_shaped_json
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.model_interface import read_served_task
from tfx_gnn.serving.prediction import ServingModel, as_text, batches_of

NPY, PARQUET = "npy", "parquet"
FORMATS = (NPY, PARQUET)
MANIFEST_FILE, MATRIX_FILE, IDS_FILE, PARQUET_FILE = (
    "manifest.json",
    "embeddings.npy",
    "ids.npy",
    "embeddings.parquet",
)

_FORMAT_VERSION = 1
_HEADER_BYTES = 128
_COUNTS = model_interface.NUM_CANDIDATES_OUTPUT
_ID_OF_OUTPUT = {
    model_interface.EMBEDDING_OUTPUT: model_interface.ID_OUTPUT,
    model_interface.SOURCE_EMBEDDING_OUTPUT: model_interface.SOURCE_ID_OUTPUT,
    model_interface.TARGET_EMBEDDING_OUTPUT: model_interface.TARGET_ID_OUTPUT,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingManifest:
    """What a folder of embeddings holds.

    Attributes:
        model_fingerprint: fingerprint of the SavedModel, the same as in its blessing.
        output: output of the signature `embeddings`, such as "embedding" or "target_embedding".
        dimension: width of the vectors.
        normalization: "l2" if all vectors have length 1 (or 0), else "none".
        num_embeddings: number of vectors, each of another id.
        num_repeated: further vectors of ids that had one; they were left out.
        file_format: "npy" or "parquet".
        created_at: when the first example was embedded, in ISO 8601 with the offset from UTC.
    """

    model_fingerprint: str
    output: str
    dimension: int
    normalization: str
    num_embeddings: int
    num_repeated: int
    file_format: str
    created_at: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Embeddings:
    """Vectors and the ids that they belong to.

    Attributes:
        ids: original ids, [n], strings or int64.
        vectors: float32 [n, dimension], in C order.
        manifest: what the first folder says of them.
    """

    ids: npt.NDArray[Any]
    vectors: npt.NDArray[np.float32]
    manifest: EmbeddingManifest


def write_embeddings(
    saved_model_dir: str,
    records: Iterable[bytes],
    embeddings_dir: str,
    *,
    output: str = "",
    file_format: str = NPY,
    batch_size: int = 64,
) -> EmbeddingManifest:
    """Writes the embeddings of a stream of examples; the vectors are never all in memory.

    Of several vectors for the same id, the first is kept, and the others are counted.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.
        records: serialized raw graph tf.Examples with original ids.
        embeddings_dir: absent or empty folder to write.
        output: output of the signature `embeddings`; needed if there are several.
        file_format: "npy" or "parquet".
        batch_size: examples per call of the model, at least 1.

    Returns:
        The manifest that was written.

    Raises:
        ValueError: if the model has no such embeddings, or the examples have no ids or are none.
    """
    if file_format not in FORMATS:
        raise ValueError(
            f"`file_format` must be one of {list(FORMATS)}; got {file_format!r}. "
            f"{did_you_mean(file_format, FORMATS, otherwise='Choose one of these.')}"
        )
    model = ServingModel(saved_model_dir)
    output = _output(model, output, saved_model_dir)
    served = read_served_task(saved_model_dir)
    created_at = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    with atomic_folder(embeddings_dir, name="embeddings_dir") as folder:
        ids: dict[Any, None] = {}
        num_rows, dimension = 0, 0
        with contextlib.closing(_WRITERS[file_format](folder)) as writer:
            for batch in batches_of(records, batch_size):
                new_ids, vectors = _embedded(model, batch, output)
                num_rows, dimension = num_rows + len(new_ids), vectors.shape[1]
                kept = []
                for row, one_id in enumerate(new_ids):
                    if one_id not in ids:
                        ids[one_id] = None
                        kept.append(row)
                if kept:
                    writer.write([new_ids[row] for row in kept], np.ascontiguousarray(vectors[kept]))
        if not ids:
            raise ValueError(
                "`records` must hold at least one example; got none. Choose another split or file, or make the "
                "examples again."
            )
        manifest = EmbeddingManifest(
            model_fingerprint=fingerprint_model(saved_model_dir),
            output=output,
            dimension=dimension,
            normalization="none" if served is None else served.embedding_normalization,
            num_embeddings=len(ids),
            num_repeated=num_rows - len(ids),
            file_format=file_format,
            created_at=created_at,
        )
        with open(os.path.join(folder, MANIFEST_FILE), "w", encoding="utf-8") as file:
            json.dump({"format_version": _FORMAT_VERSION, **dataclasses.asdict(manifest)}, file, indent=2)
    return manifest


def read_embeddings(folders: str | Sequence[str], *, saved_model_dir: str = "") -> Embeddings:
    """Reads folders of embeddings, which must be of one model.

    Args:
        folders: one folder, or several, such as one for each split.
        saved_model_dir: the model that the embeddings must be from; not checked if empty.

    Returns:
        All vectors, in the order of the folders.

    Raises:
        ValueError: if the embeddings are of different models or outputs, or not of `saved_model_dir`, or files are not
            what their manifest says.
    """
    paths = [folders] if isinstance(folders, str) else list(folders)
    if not paths:
        raise ValueError("`folders` must name at least one folder; got none. Name outputs of `write_embeddings`.")
    manifests = {path: read_manifest(path) for path in paths}
    first = manifests[paths[0]]
    for path, manifest in manifests.items():
        for field in ("model_fingerprint", "output", "normalization"):
            ours, theirs = getattr(first, field), getattr(manifest, field)
            if ours != theirs:
                raise ValueError(
                    f"`folders` must hold embeddings of one model and one output; got {field} {ours!r} in "
                    f"{paths[0]!r}, and {theirs!r} in {path!r}. Distances between them mean nothing: embed all "
                    "examples with the same model."
                )
    if saved_model_dir and fingerprint_model(saved_model_dir) != first.model_fingerprint:
        raise ValueError(
            f"`folders` must hold embeddings of the model in {saved_model_dir!r}; got those of another one, "
            f"{first.model_fingerprint!r}, in {paths[0]!r}. Embed the examples again with this model."
        )
    parts = [_read(path, manifest) for path, manifest in manifests.items()]
    return Embeddings(
        ids=np.concatenate([ids for ids, _ in parts]),
        vectors=np.ascontiguousarray(np.concatenate([vectors for _, vectors in parts]), np.float32),
        manifest=first,
    )


def read_manifest(folder: str) -> EmbeddingManifest:
    """Reads what a folder of embeddings says of itself.

    Args:
        folder: output of `write_embeddings`.

    Returns:
        The manifest.

    Raises:
        ValueError: if the manifest is of another version or damaged.
    """
    path = os.path.join(folder, MANIFEST_FILE)
    kinds: dict[str, Any] = {"str": str, "int": int}
    shape = {field.name: kinds[str(field.type)] for field in dataclasses.fields(EmbeddingManifest)}
    content = read_shaped_json(path, {"format_version": int, **shape})
    version = content.pop("format_version")
    if version != _FORMAT_VERSION:
        raise ValueError(
            f"`{path}` must be of version {_FORMAT_VERSION}; got {version}. Use the version of the library that wrote "
            "it, or embed the examples again."
        )
    manifest = EmbeddingManifest(**content)
    try:
        has_offset = dt.datetime.fromisoformat(manifest.created_at).tzinfo is not None
    except ValueError:
        has_offset = False
    if not has_offset:
        raise ValueError(
            f"`created_at` must be a time with its offset from UTC, such as 2026-01-31T04:00:00+00:00; got "
            f"{manifest.created_at!r} in {path!r}. Embed the examples again."
        )
    return manifest


def _output(model: ServingModel, output: str, saved_model_dir: str) -> str:
    signature = model.signatures.get(model_interface.EMBEDDINGS_SIGNATURE)
    found = [] if signature is None else sorted(signature.structured_outputs)
    known = [name for name in found if name.rpartition("/")[2] in _ID_OF_OUTPUT]
    chosen = output or (known[0] if len(known) == 1 else "")
    if chosen not in known:
        advice = did_you_mean(
            output, known, otherwise="Name one; a model without any ends with no layer named 'embeddings'."
        )
        raise ValueError(
            f"`output` must be one of {known}, the embeddings of the model; got {output!r} for {saved_model_dir!r}. "
            f"{advice}"
        )
    return chosen


def _embedded(model: ServingModel, batch: list[bytes], output: str) -> tuple[list[Any], npt.NDArray[np.float32]]:
    """Returns ids and vectors, [rows, dimension], without the padding of candidates."""
    records = tf.constant(batch, tf.string)
    answers = model(records)  # refuses bad records with a good message
    outputs = model.with_signature(model_interface.EMBEDDINGS_SIGNATURE)(records)
    vectors = outputs[output].numpy()
    ids = outputs.get(_ID_OF_OUTPUT[output.rpartition("/")[2]])
    if ids is None:
        raise ValueError(
            "`records` must have the original ids, `#id`, of what is embedded; got examples without. Sample them from "
            "tables with ids."
        )
    names = [as_text(value) for value in ids.numpy().ravel().tolist()]
    rows = vectors.reshape(-1, vectors.shape[-1])
    if vectors.ndim == 2:
        return names, rows
    # Not by ids: -1, which pads them, may be the id of a node.
    counts, *_ = [values.numpy() for name, values in answers.items() if name.rpartition("/")[2] == _COUNTS]
    real = np.flatnonzero(np.arange(vectors.shape[1]) < counts[:, np.newaxis])
    return [names[row] for row in real], rows[real]


class _NpyWriter:
    """Appends rows to a matrix whose header is written last, when their number is known."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: IO[bytes] = open(os.path.join(folder, MATRIX_FILE), "wb")  # noqa: SIM115 - until close()
        self._file.write(bytes(_HEADER_BYTES))
        self._ids: list[Any] = []
        self._dimension = 0

    def write(self, ids: list[Any], vectors: npt.NDArray[np.float32]) -> None:
        self._ids += ids
        self._dimension = vectors.shape[1]
        self._file.write(vectors.astype("<f4", copy=False).tobytes())

    def close(self) -> None:
        shape = (len(self._ids), self._dimension)
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
        start = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
        self._file.seek(0)
        self._file.write(start + text.encode().ljust(_HEADER_BYTES - 11) + b"\n")
        self._file.close()
        np.save(os.path.join(self._folder, IDS_FILE), np.asarray(self._ids), allow_pickle=False)


class _ParquetWriter:
    """Appends row groups to a Parquet file."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, PARQUET_FILE)
        self._writer: Any = None

    def write(self, ids: list[Any], vectors: npt.NDArray[np.float32]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])
        table = pa.table({"id": pa.array(ids), "embedding": column})
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


_WRITERS: dict[str, Any] = {NPY: _NpyWriter, PARQUET: _ParquetWriter}


def _read(folder: str, manifest: EmbeddingManifest) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
    """Reads ids and vectors, and refuses those that are not what the manifest says."""
    read = _read_npy if manifest.file_format == NPY else _read_parquet
    ids, vectors = read(folder)
    wanted = (manifest.num_embeddings, manifest.dimension)
    if ids.shape != wanted[:1] or vectors.shape != wanted or ids.dtype.kind not in "Ui":
        raise ValueError(
            f"`{folder}` must hold vectors of the shape {wanted} and as many ids, texts or integers, as its "
            f"{MANIFEST_FILE} says; got {vectors.shape} and ids of the shape {ids.shape} and the type {ids.dtype}. "
            "Its files are of different embeddings: copy all of them, or embed the examples again."
        )
    return ids, vectors


def _read_npy(folder: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
    matrix = np.load(os.path.join(folder, MATRIX_FILE), mmap_mode="r")
    return np.load(os.path.join(folder, IDS_FILE), allow_pickle=False), matrix


def _read_parquet(folder: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
    import pyarrow.parquet as pq

    table = pq.read_table(os.path.join(folder, PARQUET_FILE)).combine_chunks()
    column = table.column("embedding").combine_chunks()
    vectors = column.flatten().to_numpy().reshape(-1, column.type.list_size)
    return np.asarray(table.column("id").to_pylist()), vectors
