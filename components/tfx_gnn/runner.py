"""Names of TF-GNN's `runner` module that do not belong to its trainer: `from tfx_gnn import runner`."""

from tfx_gnn.keras.model_export import export_model

__all__ = ["export_model"]
