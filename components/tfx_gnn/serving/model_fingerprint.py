"""The fingerprint by which a model is known in blessings, answers and embeddings: a push does not change it."""

from __future__ import annotations

from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.folder_listing import list_all_files
from tfx_gnn.serving.model_interface import ANALYZER_CACHE_FOLDER, TRAINING_STATISTICS_FOLDER
from tfx_gnn.serving.object_store_versions import VERSION_MARKER


def fingerprint_model(saved_model_dir: str) -> str:
    """Hashes the files of a SavedModel, without those that a push adds to its copy of a model of GraphTrainer.

    Warm-up requests count: GraphTrainer writes them, and a push only adds them to a model of another tool.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`, of a trained model or of a pushed version.

    Returns:
        64 hexadecimal digits.
    """
    of_push = (f"{TRAINING_STATISTICS_FOLDER}/", f"{ANALYZER_CACHE_FOLDER}/")
    added = [name for name in list_all_files(saved_model_dir) if name.startswith(of_push)]
    return fingerprint_folders([saved_model_dir], without=[VERSION_MARKER, *added])
