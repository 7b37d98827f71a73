"""The Terraform files of infra/deploy, read without Terraform: names that must exist, and who may do what."""

import inspect
import json
import re
from pathlib import Path

import hcl2
import pytest
from hcl2 import SerializationOptions

from tfx_gnn.records.beam_arguments import read_beam_args
from tfx_gnn_pipelines.command import run

REPOSITORY = Path(__file__).resolve().parents[4]
TERRAFORM = REPOSITORY / "infra" / "deploy" / "terraform"
_NOBODY_IN_PARTICULAR = ("allUsers", "allAuthenticatedUsers")
_PRIMITIVE = ("roles/owner", "roles/editor", "roles/viewer")


@pytest.fixture(scope="module")
def blocks():
    """Blocks by kind and name: `{"variable": {"region": ...}, "resource": {"google_x.y": ...}, ...}`."""
    options = SerializationOptions(strip_string_quotes=True, with_comments=False, explicit_blocks=False)
    found = {"variable": {}, "output": {}, "resource": {}, "locals": {}}
    for path in sorted(TERRAFORM.glob("*.tf")):
        for kind, parts in hcl2.loads(path.read_text(), serialization_options=options).items():
            for part in parts if kind in found else ():
                for name, content in part.items():
                    if kind == "resource":
                        found[kind] |= {f"{name}.{label}": block for label, block in content.items()}
                    else:
                        found[kind][name] = content
    return found


def roles_of(blocks):
    return {
        role
        for block in (*blocks["resource"].values(), *blocks["locals"].values())
        for role in re.findall(r"roles/[\w.]+", json.dumps(block))
    }


def test_no_role_is_primitive_and_no_member_is_everybody(blocks):
    text = json.dumps(blocks)

    assert [name for name in (*_PRIMITIVE, *_NOBODY_IN_PARTICULAR) if name in text] == []
    # Authoritative bindings would take roles from others in the project.
    assert [name for name in blocks["resource"] if "_iam_binding." in name or "_iam_policy." in name] == []


def test_no_account_has_a_key(blocks):
    assert [name for name in blocks["resource"] if name.startswith("google_service_account_key.")] == []


def test_buckets_are_closed_and_are_not_deleted_with_their_contents(blocks):
    buckets = {name: block for name, block in blocks["resource"].items() if name.startswith("google_storage_bucket.")}

    assert set(buckets) == {"google_storage_bucket.artifacts", "google_storage_bucket.serving"}
    for bucket in buckets.values():
        assert bucket["uniform_bucket_level_access"] is True
        assert bucket["public_access_prevention"] == "enforced"
        assert bucket["force_destroy"] is False
    assert buckets["google_storage_bucket.serving"]["versioning"] == [{"enabled": True}]


def test_served_versions_are_not_deleted_by_age(blocks):
    rules = blocks["resource"]["google_storage_bucket.serving"]["lifecycle_rule"]

    assert [rule["condition"][0] for rule in rules] == [{"days_since_noncurrent_time": 30, "with_state": "ARCHIVED"}]


def test_the_servers_account_reads_the_serving_bucket_and_nothing_else(blocks):
    local_names = blocks["locals"]
    grants = [
        (grant.get("bucket", "").strip("${}"), grant["role"])
        for group in ("bucket_roles", "project_roles", "image_roles")
        for grant in local_names[group].values()
        if "local.serving" in grant["member"]
    ]

    assert grants == [("google_storage_bucket.serving.name", "roles/storage.objectViewer")]


def test_variables_and_outputs_are_described_and_variables_used(blocks):
    text = "".join(path.read_text() for path in sorted(TERRAFORM.glob("*.tf")))

    undescribed = [
        name for kind in ("variable", "output") for name, block in blocks[kind].items() if not block.get("description")
    ]
    # A validation alone is no use.
    used = re.findall(r"\bvar\.(\w+)", json.dumps({kind: blocks[kind] for kind in ("resource", "locals", "output")}))
    assert undescribed == []
    assert set(blocks["variable"]) - set(used) == set()
    assert set(re.findall(r"\bvar\.(\w+)", text)) - set(blocks["variable"]) == set()


def test_whatever_is_referred_to_exists(blocks):
    text = json.dumps(blocks)

    resources = {f"{kind}.{name}" for kind, name in re.findall(r"\b(google_\w+)\.(\w+)", text)}
    assert resources - set(blocks["resource"]) == set()
    assert set(re.findall(r"\blocal\.(\w+)", text)) - set(blocks["locals"]) == set()


def test_outputs_for_pipelines_are_named_after_the_options_that_take_them(blocks):
    options = {"root", "push_to", "image", "beam_arg"}

    assert options <= set(blocks["output"])
    assert options <= set(inspect.signature(run).parameters)


def test_beams_arguments_are_ones_that_beam_knows(blocks):
    arguments = [re.sub(r"\$\{.*?\}", "x", argument) for argument in blocks["output"]["beam_arg"]["value"]]

    assert read_beam_args(arguments) == arguments


def test_the_manifests_account_is_the_one_that_may_act_as_the_servers(blocks):
    namespace, _, name = blocks["variable"]["serving_kubernetes_account"]["default"].partition("/")
    manifests = REPOSITORY / "infra" / "deploy"

    assert f"  name: {name}\n" in (manifests / "tensorflow_serving" / "service_account.yaml").read_text()
    assert f"namespace: {namespace}\n" in (manifests / "tensorflow_serving" / "kustomization.yaml").read_text()
    assert f"  namespace: {namespace}\n" in (manifests / "kserve" / "service_account.yaml").read_text()


def test_the_page_lists_every_role(blocks):
    page = (REPOSITORY / "docs" / "deployment.md").read_text()

    assert set(re.findall(r"roles/[\w.]+", page)) == roles_of(blocks)


def test_manifests_and_page_read_the_versions_where_the_output_says_to_push(blocks):
    bucket = blocks["output"]["push_to"]["value"]
    deploy = REPOSITORY / "infra" / "deploy"
    page = (REPOSITORY / "docs" / "deployment.md").read_text()

    # A bucket without a folder: the model's name is appended.
    assert re.fullmatch(r"gs://\$\{[\w.]+\.name\}", bucket)
    assert 'base_path: "gs://BUCKET/my_graph"' in (deploy / "tensorflow_serving" / "models.config").read_text()
    assert "gs://BUCKET/my_graph/1" in (deploy / "kserve" / "inference_service.yaml").read_text()
    assert "--push-to gs://BUCKET/my_graph" in page
    assert "gs://BUCKET/serving" not in page


def test_nothing_is_made_before_its_service_is_on(blocks):
    """A new project has none of the services; what needs one must wait for it."""
    kinds = ("google_service_account", "google_project_iam_member", "google_storage_bucket")
    made = {name: found for name, found in blocks["resource"].items() if name.partition(".")[0] in kinds}

    assert {"iam", "cloudresourcemanager", "compute"} <= {
        name.removesuffix(".googleapis.com") for name in blocks["locals"]["services"]
    }
    assert [name for name, found in made.items() if "google_project_service.used" not in json.dumps(found)] == []
    assert len(made) == 8


def test_without_a_cluster_nothing_refers_to_its_pool(blocks):
    assert blocks["resource"]["google_service_account_iam_member.serving_pods"]["count"].endswith("? 0 : 1}")
