"""Checks that a pipeline can run in containers: their service reaches its places, and they bring the rest."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path

from tfx_gnn.components import parameters
from tfx_gnn.components.subgraph_example_gen.stage import list_input_files
from tfx_gnn.io.package_paths import PACKAGE_SCHEME
from tfx_gnn.tables.graph_tables import list_table_files
from tfx_gnn_pipelines.bulk_inference import INFERENCE_EXAMPLE_GEN
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.resources import Resources, is_on_volume
from tfx_gnn_pipelines.services import Service

_READABLE = "gs://"
_OBJECT_URI = re.compile(
    r"(?:gs|s3|minio)://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](?:/[^/\s\x00-\x1f?#*\[\]][^\s\x00-\x1f?#*\[\]]*)?/?"
)
"""A folder on an object store: a bucket's name, and perhaps a path without blanks and wildcards."""
_IMAGE = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


def check_portable(config: PipelineConfig, service: Service, image: str, resources: Resources) -> None:
    """Checks that a service's containers can read and write every place of a pipeline, and pull its image.

    Raises:
        ValueError: if they cannot; the message says what to write instead.
    """
    name = service.full_name
    _check_root(config.root, service, name)
    for used in (image, *(resources.of(component).image for component in resources.components)):
        if used is not None:
            _check_image(used, name)
    for argument, place in (
        ("root", config.root),
        ("tables_dir", config.tables_dir),
        ("push_destination", config.push_destination),
    ):
        if place.startswith(Service.KUBEFLOW.root_schemes) and not _OBJECT_URI.fullmatch(place):
            raise ValueError(
                f"`{argument}` must name a bucket, with a path without blanks and wildcards; got {place!r}. Write it "
                "as gs://BUCKET/FOLDER."
            )
    checkpoints = config.graph_trainer.checkpoints.directory
    is_lost = checkpoints and not checkpoints.startswith(_READABLE)
    if is_lost and not is_on_volume(checkpoints, resources, "GraphTrainer"):
        raise ValueError(
            f"`checkpoint_dir` must outlive the container on {name}; got {checkpoints!r}. Name gs://BUCKET/FOLDER."
        )
    if is_uri(config.tables_dir) and not config.tables_dir.startswith(_READABLE):
        raise ValueError(
            f"`tables_dir` must be on Cloud Storage or inside a package of the image on {name}; got "
            f"{config.tables_dir!r}, which TensorFlow cannot read. Copy the tables to gs://BUCKET/FOLDER and name that "
            "with --tables."
        )
    if not is_on_volume(config.push_destination, resources, "GraphPusher"):
        _check_push_destination(config.push_destination, service, name)
    elif config.latest_blessed_model_resolver is not None and not is_on_volume(
        config.push_destination, resources, "LatestBlessedModelResolver"
    ):
        raise ValueError(
            "`push_destination` must be on a volume of LatestBlessedModelResolver, too; got "
            f"{config.push_destination!r} on one of GraphPusher alone, so no version would ever be found. Give both "
            "the volume in --resources."
        )


def portable_tables(config: PipelineConfig, resources: Resources) -> PipelineConfig:
    """Names tables inside a package of the user by that package, which may be installed anywhere in the image.

    The hash of the tables is computed now, if the config has none, so that the cache notices edits and the executor
    refuses other tables.

    Raises:
        ValueError: if the tables are on this machine, outside of the packages that the pipeline runs.
    """
    readers = ["SubgraphExampleGen", *(["GraphTransform"] if config.graph_transform.analyze == "tables" else [])]
    readers += [INFERENCE_EXAMPLE_GEN] if config.inference_example_gen is not None else []
    readers += ["GraphIndexer"] if config.graph_indexer is not None else []
    if all(is_on_volume(config.tables_dir, resources, reader) for reader in readers):
        if not config.tables_fingerprint:
            raise ValueError(
                f"`tables_fingerprint` must be given for tables on a volume; got none for {config.tables_dir!r}, which "
                "cannot be read here. Give --tables-version a text that changes when the tables change."
            )
        return config
    if is_uri(config.tables_dir):
        return config
    references = (config.graph_transform.preprocessing_fn, config.graph_trainer.model_fn)
    packages = sorted(
        {reference.partition(":")[0].partition(".")[0] for reference in references if reference}
        | _packages_around(config.tables_dir)
    )
    for package in packages:
        folder = _package_folder(package)
        if folder is not None and Path(config.tables_dir).resolve().is_relative_to(folder):
            inside = Path(config.tables_dir).resolve().relative_to(folder).as_posix()
            return dataclasses.replace(
                config,
                tables_dir=f"{PACKAGE_SCHEME}{package}/{inside}",
                tables_fingerprint=config.tables_fingerprint or _fingerprint(config),
            )
    raise ValueError(
        f"`tables_dir` must be where containers can read it; got {config.tables_dir!r}, a folder of this machine "
        f"outside of the packages {packages}. Copy it to gs://BUCKET/FOLDER and name that with --tables, or put it "
        "into one of these packages, which the image brings."
    )


def _packages_around(folder: str) -> set[str]:
    """Names the outermost Python package that a folder is in, for a project without functions of its own."""
    around = [path for path in Path(folder).resolve().parents if (path / "__init__.py").is_file()]
    return {around[-1].name} if around else set()


def _fingerprint(config: PipelineConfig) -> str:
    """Hashes the tables as each of the components that read them will; they may read different files."""
    folders = config.find_tables_folders()
    files = [list_input_files(folder, config.subgraph_example_gen) for folder in folders]
    tables_dir = folders[-1]
    if config.graph_transform.analyze == "tables":
        files.append(list_table_files(tables_dir, access=config.graph_transform.access))
    if config.inference_example_gen is not None:
        files.append(list_input_files(tables_dir, config.inference_example_gen))
    if config.graph_indexer is not None:
        files.append(list_table_files(tables_dir, access=config.graph_indexer.access))
    return parameters.fingerprint_tables(*files)


def _check_root(root: str, service: Service, name: str) -> None:
    if not root and service is Service.KUBEFLOW:
        return  # The cluster has a default.
    if not root.startswith(service.root_schemes):
        forms = " or ".join(f"{scheme}BUCKET/FOLDER" for scheme in service.root_schemes)
        default = ", or leave it out for the cluster's default" if service is Service.KUBEFLOW else ""
        raise ValueError(
            f"`root` must be on an object store on {name}, where every task is a container; got {root!r}. Give --root "
            f"as {forms}{default}."
        )


def _check_image(image: str, name: str) -> None:
    if not image:
        raise ValueError(
            f"`image` must name a container image on {name}; got none. Build and push an image with this project, and "
            "give it as --image REGISTRY/NAME:TAG."
        )
    if not _IMAGE.fullmatch(image) or "/" not in image:
        raise ValueError(
            f"`image` must be a name that {name} can pull, with its registry; got {image!r}. Write "
            "REGISTRY/NAME:TAG in lower case, as in europe-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG."
        )


def _check_push_destination(destination: str, service: Service, name: str) -> None:
    remedy = "Give --push-to as gs://BUCKET/FOLDER" + (
        ", or as a folder on a volume that --resources gives to GraphPusher." if service is Service.KUBEFLOW else "."
    )
    if not destination:
        raise ValueError(
            f"`push_destination` must be given on {name} without a root on Cloud Storage; got none. {remedy}"
        )
    if is_uri(destination) and not destination.startswith(_READABLE):
        raise ValueError(
            f"`push_destination` must be where TensorFlow can write on {name}; got {destination!r}. {remedy}"
        )
    if not is_uri(destination):
        raise ValueError(
            f"`push_destination` must outlive the container on {name}; got {destination!r}, a folder that is lost with "
            f"it. {remedy}"
        )


def _package_folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).resolve()
