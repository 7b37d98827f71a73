"""SavedModels of Keras models, for inference without this package."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf
import tf_keras


def export_model(
    model: tf_keras.Model,
    export_dir: str | os.PathLike[str],
    *,
    output_names: Any | None = None,
    options: tf.saved_model.SaveOptions | None = None,
    use_legacy_model_save: bool | None = None,
) -> None:
    """Writes a model as a SavedModel with the signature "serving_default".

    The signature takes the inputs of the model by name and returns its outputs in a dict. Python traces of
    single layers are left out, so that the SavedModel loads even if this package is not installed. For models that
    a pipeline trains and pushes, `GraphTrainer` and `GraphPusher` export the model and check the result.

    Args:
        model: Keras model that was built with the functional API, or called once.
        export_dir: folder of the SavedModel; created if it does not exist.
        output_names: names of outputs in the signature, as a nest of the same structure as the outputs of `model`.
            None, for the whole nest or for an item of it, keeps the name of the layer that made the output.
        options: TensorFlow's options for saving.
        use_legacy_model_save: True saves with `model.save()`; the result can also be loaded as a Keras model if its
            layers allow it. False saves with `tf_keras.export.ExportArchive`, for inference only. None currently
            means True.

    Raises:
        ValueError: if the model has no inputs yet, an output has no name, or the structure of `output_names` differs
            from that of the outputs.
        TypeError: if `output_names` and the outputs have different types of containers.

    Example:
        >>> import tempfile
        >>> x = tf_keras.Input([2], name="x")
        >>> export_dir = tempfile.mkdtemp()
        >>> export_model(tf_keras.Model(x, 2.0 * x), export_dir, output_names="doubled")
        >>> serve = tf.saved_model.load(export_dir).signatures["serving_default"]
        >>> serve(x=tf.constant([[1.0, 3.0]]))["doubled"].numpy().tolist()
        [[2.0, 6.0]]
    """
    save_spec = model.save_spec()
    if save_spec is None:
        raise ValueError(
            f"`model` must have inputs of known types; got {type(model).__name__} {model.name!r}, which was never "
            "called. Call it on a batch first, or build it by the functional API."
        )
    flat_output_names = _output_names(model, output_names)

    @tf.function(input_signature=tf.nest.flatten(save_spec))
    def serving_default(*flat_inputs: Any) -> dict[str, Any]:
        args, kwargs = tf.nest.pack_sequence_as(save_spec, flat_inputs)
        return dict(zip(flat_output_names, tf.nest.flatten(model(*args, **kwargs)), strict=True))

    signature_name = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if use_legacy_model_save is None or use_legacy_model_save:
        model.save(
            os.fspath(export_dir),
            save_format="tf",
            include_optimizer=False,
            save_traces=False,
            signatures={signature_name: serving_default},
            options=options,
        )
    else:
        archive = tf_keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint(signature_name, serving_default)
        archive.write_out(os.fspath(export_dir), options=options)


def _output_names(model: tf_keras.Model, chosen: Any | None) -> list[str]:
    """Returns one name per flat output."""
    default = list(model.output_names or [])
    if chosen is None:
        names = default
    else:
        tf.nest.assert_same_structure(model.output, chosen)
        names = [own if name is None else name for name, own in zip(tf.nest.flatten(chosen), default, strict=True)]
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"`output_names` must give every output of the model a name; got {names}. Only a functional model has "
            "names of its own."
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"`output_names` must differ from each other; got {repeated} more than once.")
    return names
