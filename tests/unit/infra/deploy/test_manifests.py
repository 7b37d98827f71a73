"""The manifests of infra/deploy, without a cluster: their schemas, and the names that must meet between them."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

DEPLOY = Path(__file__).resolve().parents[4] / "infra" / "deploy"
_INFERENCE_SERVICE_SCHEMA = json.loads(Path(__file__).with_name("inference_service.schema.json").read_text())
_PREDICTOR = _INFERENCE_SERVICE_SCHEMA["properties"]["spec"]["properties"]["predictor"]["properties"]

KUSTOMIZATION = yaml.safe_load((DEPLOY / "tensorflow_serving" / "kustomization.yaml").read_text())
_POD = "Deployment.spec.template.spec"


def read_objects(folder):
    """Kubernetes objects of a folder by kind; a kind occurs once."""
    objects = [
        found
        for path in sorted((DEPLOY / folder).glob("*.yaml"))
        for found in yaml.safe_load_all(path.read_text())
        if found["kind"] != "Kustomization"
    ]
    by_kind = {found["kind"]: found for found in objects}
    assert len(by_kind) == len(objects)
    return by_kind


def schema_fault(found, version):
    """What a Kubernetes of this version would refuse in an object, or None."""
    try:
        for checked in _as_core_objects(found):
            kubernetes_validate.validate(checked, version, strict=True)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
        return f"{found['kind']}: {'.'.join(map(str, error.path))}: {error.message}"
    return None


def _as_core_objects(found):
    """An object that Kubernetes knows; of an InferenceService, the pod that its remaining fields describe."""
    if found["kind"] != "InferenceService":
        return [found]
    jsonschema.validate(found, _INFERENCE_SERVICE_SCHEMA)
    predictor = copy.deepcopy(found["spec"]["predictor"])
    model = predictor["model"]
    pod = {name: value for name, value in predictor.items() if name not in _PREDICTOR}
    own = _PREDICTOR["model"]["properties"]
    container = {name: value for name, value in model.items() if name not in own}
    pod["containers"] = [{"name": "kserve-container", "image": "runtime", **container}]
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": found["metadata"], "spec": pod}]


def contradictions(objects):
    """Names that do not meet in the manifests of TensorFlow Serving, and settings that would block each other."""
    deployment = objects["Deployment"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    args = arguments(container)
    target = objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    least = objects["HorizontalPodAutoscaler"]["spec"]["minReplicas"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

    selectors = {
        "Deployment": deployment["spec"]["selector"]["matchLabels"],
        "Service": objects["Service"]["spec"]["selector"],
        "PodDisruptionBudget": objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        **{
            f"topologySpreadConstraints[{position}]": spread["labelSelector"]["matchLabels"]
            for position, spread in enumerate(pod["spec"]["topologySpreadConstraints"])
        },
    }
    faults = [
        f"{name} selects {selector}, pods have {labels}"
        for name, selector in selectors.items()
        if not selector.items() <= labels.items()
    ]
    faults += port_faults(container, objects["Service"])
    if (target["kind"], target["name"]) != ("Deployment", deployment["metadata"]["name"]):
        faults.append(f"HorizontalPodAutoscaler scales {target}")
    if "replicas" in deployment["spec"]:
        faults.append("Deployment sets replicas, which undoes the autoscaler")
    if "cpu" not in container["resources"]["requests"]:
        faults.append("the autoscaler needs a request of CPU")
    if objects["PodDisruptionBudget"]["spec"]["minAvailable"] >= least:
        faults.append("PodDisruptionBudget keeps as many pods as there may be, so no node can be drained")
    if pod["spec"]["serviceAccountName"] != objects["ServiceAccount"]["metadata"]["name"]:
        faults.append("no such ServiceAccount")
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    faults += [f"no volume {name}" for name in mounts.keys() - volumes]
    (config_map,) = KUSTOMIZATION["configMapGenerator"]
    (models,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "models"]
    if models["configMap"]["name"] != config_map["name"]:
        faults.append(f"the ConfigMap is called {config_map['name']}")
    if args["model_config_file"] not in {f"{mounts.get('models')}/{name}" for name in config_map["files"]}:
        faults.append(f"the server reads {args['model_config_file']}, the ConfigMap has {config_map['files']}")
    return faults + unsafe_settings(pod["spec"], container)


def port_faults(container, service):
    """Ports that nothing listens at."""
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    args = arguments(container)
    faults = []
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        (probe,) = [container[name][kind] for kind in ("httpGet", "tcpSocket", "grpc") if kind in container[name]]
        if probe["port"] not in ports and probe["port"] not in ports.values():
            faults.append(f"{name} asks port {probe['port']}, the container has {ports}")
        if "path" in probe and probe["port"] not in ("rest", ports["rest"]):
            faults.append(f"{name} asks {probe['path']} at another port than REST")
    faults += [
        f"Service leads to port {port['targetPort']}, the container has {ports}"
        for port in service["spec"]["ports"]
        if port["targetPort"] not in ports
    ]
    if (ports["grpc"], ports["rest"]) != (int(args["port"]), int(args["rest_api_port"])):
        faults.append(f"the server opens {args['port']} and {args['rest_api_port']}, the container has {ports}")
    return faults


def arguments(container):
    return dict(arg.removeprefix("--").split("=", 1) for arg in container["args"])


def unsafe_settings(pod, container):
    """What a restricted namespace would refuse, and a root file system that can be written."""
    context = {**pod.get("securityContext", {}), **container["securityContext"]}
    expected = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    faults = [
        f"securityContext.{name} is {context.get(name)}" for name in expected if context.get(name) != expected[name]
    ]
    if not context.get("runAsUser"):
        faults.append("securityContext.runAsUser is root's or missing")
    resources = container["resources"]
    if resources["requests"].get("memory") != resources["limits"].get("memory"):
        faults.append("memory of requests and limits differs, so the node may run out of it")
    return faults


def model_config():
    text = (DEPLOY / "tensorflow_serving" / "models.config").read_text()
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    return model


@pytest.mark.parametrize("version", ["1.27", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("folder", ["tensorflow_serving", "kserve"])
def test_manifests_fit_the_schemas_of_an_old_and_the_newest_kubernetes(folder, version):
    faults = [schema_fault(found, version) for found in read_objects(folder).values()]

    assert [fault for fault in faults if fault] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("minReplica", 2),
        ("scaleMetric", "cpus"),
        ("scaleTarget", "60"),
        ("storageUris.0.mountPath", "mnt/models/1"),
        ("storageUris.0.uri", "serving/1"),
        ("storageUris.0.path", "/mnt/models/1"),
        ("model.storageUri", "gs://BUCKET/my_graph/1"),
        ("model.protocolVersion", "v3"),
        ("model.envs", []),
        ("model.env.0.value", 131072),
        ("model.readinessProbe.httpGet.prot", 8080),
        ("model.resources.requests.cpu", [2]),
        ("volumes.0.emptyDirs", {}),
    ],
)
def test_a_typo_in_an_inference_service_is_found(path, value):
    found = read_objects("kserve")["InferenceService"]
    _set(found["spec"]["predictor"], path, value)

    assert schema_fault(found, "1.37") is not None


def test_names_and_ports_meet_between_manifests():
    assert contradictions(read_objects("tensorflow_serving")) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("HorizontalPodAutoscaler.spec.scaleTargetRef.name", "other", "scales"),
        ("HorizontalPodAutoscaler.spec.minReplicas", 1, "no node can be drained"),
        ("PodDisruptionBudget.spec.selector.matchLabels", {"app": "other"}, "PodDisruptionBudget selects"),
        ("Service.spec.selector", {"app": "other"}, "Service selects"),
        ("Service.spec.ports.0.targetPort", "http", "leads to port http"),
        ("Deployment.spec.replicas", 2, "undoes the autoscaler"),
        (f"{_POD}.serviceAccountName", "default", "no such ServiceAccount"),
        (f"{_POD}.securityContext", {}, "seccompProfile"),
        (f"{_POD}.topologySpreadConstraints.1.labelSelector.matchLabels", {"app": "x"}, r"Constraints\[1\] selects"),
        (f"{_POD}.volumes.0.configMap.name", "other", "the ConfigMap is called"),
        (f"{_POD}.containers.0.readinessProbe.httpGet.port", 8080, "readinessProbe asks port 8080"),
        (f"{_POD}.containers.0.startupProbe.httpGet.port", "grpc", "another port than REST"),
        (f"{_POD}.containers.0.ports.1.containerPort", 8080, "the server opens"),
        (f"{_POD}.containers.0.resources.requests", {"memory": "2Gi"}, "request of CPU"),
        (f"{_POD}.containers.0.resources.limits", {}, "run out of it"),
        (f"{_POD}.containers.0.volumeMounts.0.mountPath", "/etc/models", "the server reads"),
        (f"{_POD}.containers.0.securityContext.readOnlyRootFilesystem", False, "readOnlyRootFilesystem"),
    ],
)
def test_a_contradiction_between_manifests_is_found(path, value, fault):
    objects = read_objects("tensorflow_serving")
    _set(objects, path, value)

    assert [text for text in contradictions(objects) if re.search(fault, text)]


def test_the_model_server_is_told_one_version_of_the_model_that_probes_ask_for():
    container = read_objects("tensorflow_serving")["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    model = model_config()

    assert model.model_version_policy.WhichOneof("policy_choice") == "specific"
    assert len(model.model_version_policy.specific.versions) == 1
    assert {container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe")} == {
        f"/v1/models/{model.name}"
    }


def test_kserve_serves_the_same_version_in_a_folder_with_its_number():
    found = read_objects("kserve")["InferenceService"]
    predictor, model = found["spec"]["predictor"], model_config()
    (version,) = model.model_version_policy.specific.versions

    assert predictor["storageUris"] == [{"uri": f"{model.base_path}/{version}", "mountPath": f"/mnt/models/{version}"}]
    # KServe names the model after its object.
    assert predictor["model"]["readinessProbe"]["httpGet"]["path"] == f"/v1/models/{found['metadata']['name']}"
    assert unsafe_settings(predictor, predictor["model"]) == []
    budget = read_objects("kserve")["PodDisruptionBudget"]["spec"]
    assert budget["minAvailable"] < predictor["minReplicas"]
    assert budget["selector"]["matchLabels"]["serving.kserve.io/inferenceservice"] == found["metadata"]["name"]


def test_both_ways_of_serving_take_the_image_of_the_tensorflow_that_trains():
    (image,) = KUSTOMIZATION["images"]
    model = read_objects("kserve")["InferenceService"]["spec"]["predictor"]["model"]
    pyproject = (DEPLOY.parents[1] / "pyproject.toml").read_text()
    lane_1 = re.search(r'"tensorflow>=([0-9.]+),<[0-9.]+; python_version < .3\.11', pyproject)[1]

    assert image["newTag"] == model["runtimeVersion"]
    assert image["newTag"].rpartition(".")[0] == lane_1


def test_the_kustomization_names_the_files_that_exist():
    folder = DEPLOY / "tensorflow_serving"
    (config_map,) = KUSTOMIZATION["configMapGenerator"]
    manifests = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}

    assert set(KUSTOMIZATION["resources"]) == manifests
    assert [name for name in config_map["files"] if not (folder / name).is_file()] == []


def _set(found, path, value):
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        found = found[part]
    found[last] = value
