from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.serving.embedding_files import read_embeddings, write_embeddings

_CENTERS = np.asarray([[3.0, 0.0], [0.0, 4.0], [-5.0, 1.0]], np.float32)


class _Points(tf.Module):
    """Embeds "k-i" near the k-th center; "?" has no id, and pairs embed both ends."""

    def __init__(self, shift: float = 0.0, *, has_ids: bool = True) -> None:
        super().__init__()
        self._shift = tf.Variable(shift)
        self._has_ids = has_ids

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def embed(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parts = tf.strings.to_number(tf.strings.split(examples, "-").to_tensor("0"), tf.int32)
        spread = tf.cast(parts[:, 1:2], tf.float32) * [[0.1, -0.1]]
        found = {"embedding": tf.gather(_CENTERS, parts[:, 0]) + spread + self._shift}
        return {**found, "id": examples} if self._has_ids else found

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def count_pairs(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Has a pair less than the largest number for "0-i", and none for "2-i"."""
        first = tf.strings.to_number(tf.strings.substr(examples, 0, 1), tf.int64)
        return {"num_candidates": tf.gather(tf.constant([1, 2, 0], tf.int64), first)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def embed_pairs(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        vectors = tf.tile(self.embed(examples)["embedding"][:, tf.newaxis], [1, 2, 1])
        first = tf.strings.to_number(tf.strings.substr(examples, 0, 1), tf.int64)
        ids = tf.stack([first, -tf.ones_like(first)], axis=1)
        ids = {"source_id": ids, "target_id": ids}
        return {"source_embedding": vectors, "target_embedding": vectors + 1.0, **ids}


def _save(folder: Path, module: _Points, embed: Any = None) -> str:
    predict = module.count_pairs if embed else module.embed
    signatures = {"serving_default": predict, "embeddings": embed or module.embed}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return str(folder)


@pytest.fixture(scope="module")
def saved_model_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _save(tmp_path_factory.mktemp("points") / "model", _Points())


RECORDS = [f"{k}-{i}".encode() for i in range(4) for k in range(3)]


@pytest.mark.parametrize("file_format", ["npy", "parquet"])
def test_neighbors_found_in_what_was_written_are_those_of_the_same_center(
    saved_model_dir: str, tmp_path: Path, file_format: str
) -> None:
    folder = str(tmp_path / "embeddings")

    manifest = write_embeddings(saved_model_dir, [*RECORDS, RECORDS[0]], folder, file_format=file_format, batch_size=5)
    read = read_embeddings(folder, saved_model_dir=saved_model_dir)

    assert (manifest.dimension, manifest.num_embeddings, manifest.num_repeated) == (2, 12, 1)
    assert (manifest.output, manifest.normalization) == ("embedding", "none")
    assert read.manifest == manifest
    assert read.vectors.flags.c_contiguous
    assert read.vectors.dtype == np.float32
    assert read.ids.tolist() == [record.decode() for record in RECORDS]
    np.testing.assert_allclose(read.vectors[read.ids == "2-3"], [[-4.7, 0.7]], rtol=1e-6)
    distances = ((read.vectors[:, np.newaxis] - read.vectors) ** 2).sum(axis=2)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :4]
    assert all({read.ids[other][0] for other in row} == {read.ids[row[0]][0]} for row in nearest)


def test_the_matrix_is_a_plain_npy_file(saved_model_dir: str, tmp_path: Path) -> None:
    write_embeddings(saved_model_dir, RECORDS[:3], str(tmp_path / "e"))

    matrix = np.load(tmp_path / "e" / "embeddings.npy", mmap_mode="r")

    np.testing.assert_array_equal(matrix, _CENTERS)
    assert np.load(tmp_path / "e" / "ids.npy").tolist() == ["0-0", "1-0", "2-0"]


def test_embeddings_of_two_models_are_not_mixed(saved_model_dir: str, tmp_path: Path) -> None:
    other = _save(tmp_path / "model", _Points(shift=1.0))
    for name, model in (("one", saved_model_dir), ("more", saved_model_dir), ("other", other)):
        write_embeddings(model, RECORDS[:2], str(tmp_path / name))
    one, more, mixed = (str(tmp_path / name) for name in ("one", "more", "other"))

    assert read_embeddings([one, more]).ids.tolist() == ["0-0", "1-0"] * 2
    with pytest.raises(
        ValueError, match="`folders` must hold embeddings of one model and one output; got model_finger"
    ):
        read_embeddings([one, mixed])
    with pytest.raises(
        ValueError, match=r"`folders` must hold embeddings of the model in .*; got those of another one"
    ):
        read_embeddings(one, saved_model_dir=other)


@pytest.mark.parametrize("file_format", ["npy", "parquet"])
def test_candidates_are_embedded_without_padding_by_the_end_that_is_asked_for(tmp_path: Path, file_format: str) -> None:
    module = _Points()
    model = _save(tmp_path / "model", module, module.embed_pairs)

    with pytest.raises(ValueError, match=r"`output` must be one of \['source_embedding', 'target_embedding'\]"):
        write_embeddings(model, [b"1-0"], str(tmp_path / "e"))
    records, output = [b"2-0", b"0-0", b"1-0"], "target_embedding"
    write_embeddings(model, records, str(tmp_path / "e"), output=output, file_format=file_format, batch_size=1)

    read = read_embeddings(str(tmp_path / "e"))
    # Padding has the id -1, too, which is that of the second candidate of "1-0".
    assert read.ids.tolist() == [0, 1, -1]
    assert read.vectors.tolist() == [[4.0, 1.0], [1.0, 5.0], [1.0, 5.0]]


def test_what_cannot_be_embedded_is_refused(saved_model_dir: str, tmp_path: Path) -> None:
    nameless = _save(tmp_path / "nameless", _Points(has_ids=False))

    with pytest.raises(ValueError, match="`records` must have the original ids"):
        write_embeddings(nameless, RECORDS, str(tmp_path / "a"))
    with pytest.raises(ValueError, match="`records` must hold at least one example"):
        write_embeddings(saved_model_dir, [], str(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"`file_format` must be one of \['npy', 'parquet'\]"):
        write_embeddings(saved_model_dir, RECORDS, str(tmp_path / "a"), file_format="csv")
    with pytest.raises(ValueError, match="`folders` must name at least one folder"):
        read_embeddings([])
    assert not (tmp_path / "a").exists()


def test_the_command_says_what_it_wrote(saved_model_dir: str, tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "examples")) as file:
        for record in RECORDS:
            file.write(record)
    places = ["--examples", str(tmp_path / "examples"), "--embeddings-dir", str(tmp_path / "e")]

    shown = CliRunner().invoke(app, ["embed", "--model-dir", saved_model_dir, *places, "--limit", "3"])

    assert shown.exit_code == 0, shown.output
    assert "3 embeddings of width 2, normalization 'none'; 0 more" in shown.output.replace("\n", " ")
    assert len(read_embeddings(str(tmp_path / "e")).ids) == 3
