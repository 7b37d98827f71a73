"""Scaled scores, and topics as class indices."""

import tensorflow_transform as tft


def preprocessing_fn(graph):
    return graph.replace_features(
        node_sets={
            "paper": {"score": tft.scale_to_z_score(graph.node_sets["paper"]["score"])},
            "_readout": {
                "topic": tft.compute_and_apply_vocabulary(graph.node_sets["_readout"]["topic"], vocab_filename="topic"),
            },
        }
    )
