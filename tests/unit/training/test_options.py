from __future__ import annotations

import pytest

from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.training.options import GraphTrainerOptions

TASK = NodeClassification(label_feature="color", class_vocabulary="color")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_epochs": 0}, "`num_epochs` must be at least 1; got 0"),
        ({"batch_size": -1}, "`batch_size` must be at least 0; got -1"),
        ({"batching": "packing"}, r"`batching` must be one of \['fit_or_skip', 'packed', 'tight'\]; got 'packing'"),
        ({"success_ratio": 0.0}, r"`success_ratio` must lie in \(0, 1\]; got 0.0"),
        ({"early_stopping_patience": -1}, "`early_stopping_patience` must be at least 0; got -1"),
        ({"training_seed": -1}, r"`training_seed` must lie in \[0, 2\*\*31\); got -1"),
        ({"eval_split": "train"}, "`eval_split` must be another split than `train_split`; got 'train' for both"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GraphTrainerOptions(**{"model_fn": "m:f", "task": TASK, **options})
