from __future__ import annotations

import math
import re
import sys

import pytest
from tfx.components.example_gen import utils as example_gen_utils
from tfx.components.infra_validator import executor as infra_validator
from tfx.components.util import examples_utils, model_utils
from tfx.orchestration.kubeflow.v2 import compiler_utils
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import import_utils

from tfx_gnn.components import artifacts
from tfx_gnn.records.blessing import model_objections

each_type = pytest.mark.parametrize(
    "artifact_type",
    [
        artifacts.ExamplesBlessingArtifact,
        artifacts.GraphSchemaArtifact,
        artifacts.InferenceTableArtifact,
        artifacts.SizeConstraintsArtifact,
        artifacts.SkewReportArtifact,
    ],
)


@each_type
def test_type_name_is_the_import_path_of_the_class(artifact_type):
    assert import_utils.import_class_by_path(artifact_type.TYPE_NAME) is artifact_type


@each_type
def test_kubeflow_takes_the_type(artifact_type):
    assert re.fullmatch(r"\w+\.\w+", artifact_type.TYPE_NAME)
    assert not artifact_type.PROPERTIES
    assert f"title: {artifact_type.TYPE_NAME}\n" in compiler_utils.get_artifact_schema(artifact_type)


def test_stock_components_read_the_examples_as_gzipped_tf_examples():
    examples = standard_artifacts.Examples()

    artifacts.describe_examples(examples, ["test", "train"])

    assert examples.splits == ["test", "train"]
    assert examples_utils.get_payload_format(examples) == example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE
    assert examples_utils.get_file_format(examples) == "tfrecords_gzip"
    assert artifacts.PAYLOAD_FORMAT_PROPERTY == example_gen_utils.PAYLOAD_FORMAT_PROPERTY_NAME
    assert artifacts.FILE_FORMAT_PROPERTY == example_gen_utils.FILE_FORMAT_PROPERTY_NAME


@pytest.mark.parametrize("blessed", [True, False])
def test_stock_pusher_understands_the_blessing(blessed):
    blessing, model = standard_artifacts.ModelBlessing(), standard_artifacts.Model()
    model.uri, model.id = "/models/7", 7

    artifacts.describe_blessing(blessing, model, blessed=blessed)

    assert model_utils.is_model_blessed(blessing) is blessed
    assert blessing.get_string_custom_property("current_model") == "/models/7"
    assert blessing.get_int_custom_property("current_model_id") == 7


@pytest.mark.parametrize("blessed", [True, False])
def test_stock_pusher_understands_the_verdict_on_serving(blessed):
    blessing, model = standard_artifacts.InfraBlessing(), standard_artifacts.Model()

    artifacts.describe_blessing(blessing, model, blessed=blessed)

    assert model_utils.is_infra_validated(blessing) is blessed


@pytest.mark.parametrize(("difference", "written"), [(0.0, 0.0), (0.25, 0.25), (math.inf, sys.float_info.max)])
def test_skew_report_carries_its_largest_difference(difference, written):
    skew = artifacts.SkewReportArtifact()

    artifacts.describe_skew(skew, difference)

    assert skew.get_float_custom_property("largest_difference") == written


def test_inference_tells_its_rows():
    inference = artifacts.InferenceTableArtifact()

    artifacts.describe_inference(inference, blessed=True, num_rows=12)

    assert inference.get_int_custom_property("blessed") == 1
    assert inference.get_int_custom_property("num_rows") == 12


def test_pushed_model_tells_version_and_place():
    pushed = standard_artifacts.PushedModel()

    artifacts.describe_pushed_model(pushed, "/serving/3", 3, identical_to=1)

    assert pushed.get_int_custom_property("pushed") == 1
    assert pushed.get_string_custom_property("pushed_destination") == "/serving/3"
    assert pushed.get_string_custom_property("pushed_version") == "3"
    assert pushed.get_string_custom_property("identical_to_version") == "1"


def test_model_that_was_not_pushed_has_no_version():
    pushed = standard_artifacts.PushedModel()

    artifacts.describe_pushed_model(pushed, "", None)

    assert pushed.get_int_custom_property("pushed") == 0
    assert not pushed.has_custom_property("pushed_version")
    assert not pushed.has_custom_property("identical_to_version")


def test_spans_are_told_apart_by_number_then_version_then_age():
    def examples(span, version, number):
        made = standard_artifacts.Examples()
        made.span, made.version, made.id = span, version, number
        return made

    made = [examples(2, 0, 1), examples(1, 1, 2), examples(1, 0, 4), examples(1, 0, 3)]

    assert [one.id for one in artifacts.sort_by_span(made)] == [3, 4, 2, 1]


@pytest.mark.parametrize("is_blessed", [True, False])
def test_the_verdict_of_the_stock_infra_validator_is_taken(is_blessed, tmp_path):
    blessing = standard_artifacts.InfraBlessing()
    blessing.uri = str(tmp_path)
    mark = infra_validator._mark_blessed if is_blessed else infra_validator._mark_not_blessed
    mark(blessing)

    objections = model_objections(blessing_dir="", infra_blessing_dir=blessing.uri, model_fingerprint="any")

    assert bool(objections) is not is_blessed
