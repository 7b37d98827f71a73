"""The results of the transform's analysis, whose errors tell which vocabularies there are."""

from __future__ import annotations

import json
import os

import tensorflow as tf
import tensorflow_transform as tft

from tfx_gnn.io.suggestions import did_you_mean

_ZIPPED = ".tfrecord.gz"


class TransformResults(tft.TFTransformOutput):
    """What `model_fn` gets as `tft_output`: tf.Transform's own class, which explains unknown names of vocabularies."""

    def vocabulary_size_by_name(self, vocab_filename: str) -> int:
        """Returns the number of values of a vocabulary.

        Raises:
            ValueError: if there is no such vocabulary.
        """
        try:
            return int(super().vocabulary_size_by_name(vocab_filename))
        except ValueError as error:
            raise self._explained(error, vocab_filename) from error

    def vocabulary_by_name(self, vocab_filename: str) -> list[bytes]:
        """Returns the values of a vocabulary in the order of their indices.

        Raises:
            ValueError: if there is no such vocabulary.
        """
        try:
            return list(super().vocabulary_by_name(vocab_filename))
        except ValueError as error:
            raise self._explained(error, vocab_filename) from error

    def vocabulary_names(self) -> list[str]:
        """Lists the `vocab_filename`s of all vocabularies, sorted."""
        return sorted(self.vocabulary_files())

    def vocabulary_files(self) -> dict[str, str]:
        """Returns the name of each vocabulary's file in the folder `assets` of a SavedModel, by `vocab_filename`."""
        assets = os.path.join(self.transform_savedmodel_dir, tf.saved_model.ASSETS_DIRECTORY)
        files: list[str] = tf.io.gfile.listdir(assets) if tf.io.gfile.isdir(assets) else []
        path = os.path.join(self._transformed_metadata_dir, self.ASSET_MAP)
        named: dict[str, str] = {}
        if tf.io.gfile.exists(path):
            with tf.io.gfile.GFile(path) as file:
                named = json.load(file)
        names = {file: name for name, file in named.items()}
        return {names.get(file, file.removesuffix(_ZIPPED)): file for file in sorted(files)}

    def _explained(self, error: ValueError, name: str) -> ValueError:
        if self.vocabulary_file_by_name(name):
            return error
        known = self.vocabulary_names()
        return ValueError(
            f"`vocab_filename` must be a vocabulary of the transform, among {known}; got {name!r}. "
            f"{did_you_mean(name, known)}"
        )
