from __future__ import annotations

import json

import pytest

from tfx_gnn.transform.transform_results import TransformResults


@pytest.fixture
def results(tmp_path):
    """Two vocabularies, of which one's file has another name, as tf.Transform writes them."""
    assets, metadata = tmp_path / "transform_fn" / "assets", tmp_path / "transformed_metadata"
    assets.mkdir(parents=True)
    metadata.mkdir()
    (assets / "interest").write_text("books\nmusic\n")
    (assets / "of_products").write_text("tools\n")
    (metadata / "asset_map").write_text(json.dumps({"of products": "of_products"}))
    return TransformResults(str(tmp_path))


def test_known_vocabularies_are_read(results):
    assert results.vocabulary_names() == ["interest", "of products"]
    assert results.vocabulary_size_by_name("interest") == 2
    assert results.vocabulary_by_name("of products") == [b"tools"]


@pytest.mark.parametrize("method", ["vocabulary_size_by_name", "vocabulary_by_name"])
@pytest.mark.parametrize(
    ("name", "advice"), [("intrest", "Did you mean 'interest'?"), ("x", "Check the spelling.")], ids=["alike", "other"]
)
def test_unknown_vocabulary_is_refused_with_those_that_there_are(results, method, name, advice):
    with pytest.raises(ValueError, match="must be a vocabulary of the transform") as refusal:
        getattr(results, method)(name)

    assert str(refusal.value).endswith(f"among ['interest', 'of products']; got {name!r}. {advice}")


def test_transform_without_vocabularies_has_none(tmp_path):
    assert TransformResults(str(tmp_path)).vocabulary_names() == []
