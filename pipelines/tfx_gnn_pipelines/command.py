"""The command `tfx-gnn run`; heavy imports happen only when it needs them."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tfx_gnn.io.folded_help import FOLDED, FoldedCommand
from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.io.user_errors import is_house_message
from tfx_gnn_pipelines.checks.findings import PipelineNotReadyError
from tfx_gnn_pipelines.emulator.container_engine import EngineKind
from tfx_gnn_pipelines.services import Service
from tfx_gnn_pipelines.task_seeds import read_run_config

if TYPE_CHECKING:
    from tfx_gnn_pipelines.config import PipelineConfig
    from tfx_gnn_pipelines.emulator.launcher import ContainerEngine

EXIT_NOT_PUSHED = 1
EXIT_FAILED = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Runner(str, enum.Enum):
    """Where a pipeline runs."""

    LOCAL = "local"
    BEAM = "beam"
    KUBEFLOW = "kubeflow"
    VERTEX = "vertex"
    SPEC = "spec"


_SERVICES = (Runner.KUBEFLOW, Runner.VERTEX)
_PROJECT_HELP = (
    "Folder with project.yaml, or such a file; package.module:ATTRIBUTE for a task in Python; the name of a bundled "
    "task, or 'list' to see these names; with --runner spec, a compiled file."
)
_RUNNER_HELP = (
    "Where it runs: local, beam, kubeflow, vertex, or spec, which runs a compiled file here. For kubeflow and vertex, "
    "it is only compiled."
)
_OPEN_HELP = "One more parameter to leave open in the compiled pipeline, as in GraphTrainer.num_epochs; repeatable."
_RESOURCES_HELP = "File with machine, retries, volumes and the like of each component, for kubeflow and vertex."
_PARAMETER_HELP = "Value of an open parameter of the compiled file, as in num_epochs=3; repeatable."
_IMAGE_HELP = (
    "Container image with this project, for kubeflow and vertex; with --container, instead of the compiled one."
)
_CONTAINER_HELP = "Command that runs each task of --runner spec in a container of its image, without a network."
_SEMANTICS_HELP = "Service to imitate with --runner spec."
_REPORT_HELP = (
    "Address to which a last task posts how the run ended, or variable:NAME for one in its environment; for kubeflow "
    "and vertex."
)
_STORE_HELP = "URL of an S3 server to copy artifacts to, as Kubeflow's launcher does; with --runner spec."
_OPTIONS_HELP = "YAML file that changes the project: fields of the task, and options of steps."
_SET_HELP = "One such option, as in --set graph_trainer.hyperparameters.units=64; wins over the file; repeatable."
_ROOT_HELP = "Folder or URI of all outputs; on Kubeflow, empty for the cluster's default."
_BEAM_HELP = "Argument of every Beam pipeline, as in --beam-arg=--runner=DataflowRunner; repeatable."
_CHECK_HELP = (
    "Check the pipeline beside its first steps, as `tfx-gnn check` does, and stop at an error; for local and beam."
)
_PROJECTS_OWN = "the project's own"


@app.command(cls=FoldedCommand)
def run(
    project: Annotated[str, typer.Argument(help=_PROJECT_HELP, show_default="the current folder")] = "",
    *,
    runner: Annotated[Runner, typer.Option(help=_RUNNER_HELP, metavar="RUNNER")] = Runner.LOCAL,
    compile_only: Annotated[bool, typer.Option("--compile-only", help="Write the pipeline spec and stop.")] = False,
    output: Annotated[
        str,
        typer.Option(
            help="Compiled file: JSON of the job, or the bare spec if the name ends in .yaml.",
            show_default="runs/PIPELINE_RUNNER.json",
        ),
    ] = "",
    root: Annotated[str, typer.Option(help=_ROOT_HELP, show_default="runs/TASK")] = "",
    tables: Annotated[str, typer.Option(help="Folder or URI of the tables.", show_default=_PROJECTS_OWN)] = "",
    span: Annotated[
        str,
        typer.Option(
            help="Number or date of the tables' span, where their folder is a pattern such as data/{SPAN}.",
            show_default="the newest",
        ),
        FOLDED,
    ] = "",
    tables_version: Annotated[
        str,
        typer.Option(help="Text that changes when remote tables change.", show_default="time of compilation"),
        FOLDED,
    ] = "",
    push_to: Annotated[
        str, typer.Option(help="Folder or URI of served versions.", show_default="serving in the root")
    ] = "",
    options: Annotated[str, typer.Option(help=_OPTIONS_HELP, metavar="FILE", show_default=_PROJECTS_OWN)] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help=_SET_HELP, metavar="NAME=VALUE")] = None,
    epochs: Annotated[int | None, typer.Option(help="Training epochs.", show_default=_PROJECTS_OWN)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Graphs of a batch.", show_default=_PROJECTS_OWN)] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the model's weights and of the order of examples.", show_default="0")
    ] = None,
    sampling_seed: Annotated[
        int | None, typer.Option(help="Seed of the sampled subgraphs.", show_default="0"), FOLDED
    ] = None,
    image: Annotated[str, typer.Option(help=_IMAGE_HELP), FOLDED] = "",
    resources: Annotated[str, typer.Option(help=_RESOURCES_HELP), FOLDED] = "",
    report_to: Annotated[str, typer.Option(help=_REPORT_HELP, show_default="no report"), FOLDED] = "",
    open_parameter: Annotated[list[str] | None, typer.Option(help=_OPEN_HELP), FOLDED] = None,
    semantics: Annotated[
        Service | None, typer.Option(help=_SEMANTICS_HELP, show_default="the file's own"), FOLDED
    ] = None,
    container: Annotated[
        EngineKind | None, typer.Option(help=_CONTAINER_HELP, show_default="each task is a process"), FOLDED
    ] = None,
    parameter: Annotated[list[str] | None, typer.Option(help=_PARAMETER_HELP), FOLDED] = None,
    store: Annotated[str, typer.Option(help=_STORE_HELP, show_default="a folder of the root"), FOLDED] = "",
    beam_arg: Annotated[list[str] | None, typer.Option(help=_BEAM_HELP), FOLDED] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Run every component anew.")] = False,
    check: Annotated[
        bool | None, typer.Option("--check/--no-check", help=_CHECK_HELP, show_default="check"), FOLDED
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as one JSON object, and progress to stderr.")
    ] = False,
    is_quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the last lines: warning, result, push, page, next; and errors.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show warnings, and the traceback of an error.")] = False,
) -> None:
    """Run a pipeline from tables to a pushed model, or compile it for a remote service.

    With --runner spec, run a compiled file on this machine, as Kubeflow Pipelines or Vertex AI would.

    Exits with 0 if the model was pushed or the spec written; with 1 if everything ran but the model was not good
    enough to be pushed, or with --runner spec, a task was skipped by its condition; with 2 after an error.
    """
    started_at = time.monotonic()
    console = PlainConsole(stderr=as_json)
    remote_options = {
        "--output": output,
        "--image": None if container else image,
        "--resources": resources,
        "--report-to": report_to,
        "--open-parameter": open_parameter,
    }
    spec_options = {"--semantics": semantics, "--container": container, "--parameter": parameter, "--store": store}
    task_options = {
        "--tables": tables,
        "--span": span,
        "--tables-version": tables_version,
        "--push-to": push_to,
        "--options": options,
        "--set": set_,
        "--epochs": epochs,
        "--batch-size": batch_size,
        "--seed": seed,
        "--sampling-seed": sampling_seed,
        "--beam-arg": beam_arg,
        "--no-cache": no_cache,
    }
    _check_output_flags(
        [flag for flag, is_given in (("--json", as_json), ("--quiet", is_quiet), ("--debug", debug)) if is_given],
        runs_here=runner is not Runner.SPEC and not compile_only,
    )
    _check_usage(
        runner, [name for name, value in remote_options.items() if value], compile_only=compile_only, check=check
    )
    _check_spec_usage(
        project,
        runner,
        [name for name, value in spec_options.items() if value],
        [name for name, value in task_options.items() if value],
    )
    with contextlib.ExitStack() as at_end:
        try:
            if runner is Runner.SPEC:
                sys.exit(
                    _run_spec(
                        project,
                        semantics,
                        container,
                        image=image,
                        root=root,
                        store=store,
                        parameters=parameter or [],
                        console=console,
                    )
                )
            if project == "list":
                _list_tasks(console)
                return
            from tfx_gnn_pipelines.project import user_files
            from tfx_gnn_pipelines.run_here import run_here

            shortcuts = {
                "tables_dir": tables or None,
                "num_epochs": epochs,
                "batch_size": batch_size,
                "graph_trainer.training_seed": seed,
                "subgraph_example_gen.sampling_seed": sampling_seed,
                "root": root or None,
                "push_destination": push_to or None,
                "span": span or None,
                "tables_fingerprint": tables_version or None,
                "enable_cache": False if no_cache else None,
                "beam_args": beam_arg or None,
                "runtime_parameters": open_parameter or None,
            }
            given = {name: value for name, value in shortcuts.items() if value is not None}
            changes = {"options_file": options, "assignments": set_ or [], "shortcuts": given}
            early = PlainConsole(quiet=True) if is_quiet else console
            config = read_run_config(project, changes, early, is_remote=runner in _SERVICES)
            if compile_only:
                output = output or os.path.join("runs", f"{config.pipeline_name}_{runner.value}.json")
                _compile(config, runner, output, image=image, resources=resources, report_to=report_to, console=console)
                return
            files = None if check is False else user_files(project)
            pushed = run_here(
                config,
                "beam" if runner is Runner.BEAM else "local",
                console,
                started_at=started_at,
                check_files=files,
                as_json=as_json,
                is_quiet=is_quiet,
                debug=debug,
                at_end=at_end,
            )
        except KeyboardInterrupt as interruption:
            _print_how_to_go_on()
            raise typer.Exit(EXIT_INTERRUPTED) from interruption
        except PipelineNotReadyError as error:
            from tfx_gnn_pipelines.run_here import print_not_ready

            print_not_ready(error.found, console, as_json=as_json)
            raise typer.Exit(EXIT_FAILED) from error
        except Exception as error:
            if debug:
                raise
            _print_error(error)
            raise typer.Exit(EXIT_FAILED) from error
    if not pushed:
        raise typer.Exit(EXIT_NOT_PUSHED)


def _check_output_flags(flags: list[str], *, runs_here: bool) -> None:
    for flag in flags:
        if flag in ("--json", "--quiet") and not runs_here:
            raise typer.BadParameter(f"{flag} only where the pipeline runs here, with --runner local or beam.")
    if {"--quiet", "--debug"} <= set(flags):
        raise typer.BadParameter("--quiet without --debug, which shows more.")


def _check_usage(runner: Runner, remote_options: list[str], *, compile_only: bool, check: bool | None) -> None:
    if check is not None and runner not in (Runner.LOCAL, Runner.BEAM):
        raise typer.BadParameter(
            f"--{'check' if check else 'no-check'} only where the pipeline runs here, with --runner local or beam. "
            "`tfx-gnn check` checks a project before it is compiled."
        )
    if runner in _SERVICES and not compile_only:
        raise typer.BadParameter(
            f"--runner {runner.value} only writes the file that {runner.value} runs. Add --compile-only, then start "
            "a run with `tfx-gnn submit FILE`. To run the pipeline here, use --runner local or beam."
        )
    if runner not in _SERVICES and compile_only:
        raise typer.BadParameter(f"--runner {runner.value} runs here; compile for kubeflow or vertex.")
    if runner not in _SERVICES and remote_options:
        raise typer.BadParameter(f"{' and '.join(remote_options)} only for --runner kubeflow or vertex.")


def _check_spec_usage(project: str, runner: Runner, spec_options: list[str], task_options: list[str]) -> None:
    if runner is not Runner.SPEC and spec_options:
        raise typer.BadParameter(f"{' and '.join(spec_options)} only for --runner spec.")
    if runner is not Runner.SPEC and project.endswith(".json"):
        raise typer.BadParameter(
            f"{project} is run by --runner spec, or by its service; --runner {runner.value} takes a project."
        )
    if runner is Runner.SPEC and task_options:
        raise typer.BadParameter(
            f"--runner spec takes {' and '.join(task_options)} from the compiled file; set open parameters with "
            "--parameter NAME=VALUE."
        )


def _run_spec(
    file: str,
    semantics: Service | None,
    container: EngineKind | None,
    *,
    image: str,
    root: str,
    store: str,
    parameters: list[str],
    console: Console,
) -> int:
    """Runs a compiled file; returns the exit status."""
    from tfx_gnn_pipelines.compiled_pipeline import (
        compiled_service,
        has_custom_jobs,
        read_compiled,
        run_parameters,
        with_image,
    )
    from tfx_gnn_pipelines.config import is_uri
    from tfx_gnn_pipelines.emulator.progress import EmulatorProgress
    from tfx_gnn_pipelines.emulator.run import SUCCEEDED, run_compiled
    from tfx_gnn_pipelines.run_here import leave_page
    from tfx_gnn_pipelines.summary import shorten

    given = dict(_name_and_value(text) for text in parameters)
    pipeline = read_compiled(file)
    values = run_parameters(pipeline, given)
    if "push_destination" not in given and is_uri(str(values.get("push_destination", ""))):
        raise ValueError(
            f"`--parameter` must give push_destination, so that a trial does not push to the compiled place, "
            f"{values['push_destination']!r}; got none. Add --parameter push_destination=FOLDER."
        )
    if "report_to" not in given and values.get("report_to"):
        values["report_to"] = ""
        console.print(
            "The report of this trial is only printed. Add --parameter report_to=ADDRESS to send it.", soft_wrap=True
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    service = semantics or compiled_service(pipeline)
    folder = os.path.join("runs", f"{pipeline.name}_{service.value}") if is_uri(root) or not root else root
    engine = None
    if container and has_custom_jobs(pipeline):
        raise ValueError(
            f"`--container` must be left out for a pipeline with custom jobs, whose replicas need a network; got "
            f"{container.value!r}. Run its tasks as processes, or compile it without `custom_job`."
        )
    if container:
        engine, values = _container_engine(container, values, service, folder=folder, root=root)
        pipeline = with_image(pipeline, image) if image else pipeline
    progress = EmulatorProgress(console, num_tasks=len(pipeline.tasks))
    results = run_compiled(
        pipeline,
        service=service,
        folder=folder,
        root=root if is_uri(root) else "",
        store=store,
        parameters=values,
        engine=engine,
        report=progress.report,
    )
    progress.summarize(results, service)
    page = leave_page(folder, console)
    if page:
        console.print(f"Page of the run: {shorten(page)}", markup=False, highlight=False, soft_wrap=True)
    states = {result.state for result in results} - set(SUCCEEDED)
    if not states:
        return 0
    return EXIT_NOT_PUSHED if states == {"skipped"} else EXIT_FAILED


def _container_engine(
    kind: EngineKind, values: dict[str, Any], service: Service, *, folder: str, root: str
) -> tuple[ContainerEngine, dict[str, Any]]:
    """Returns an engine that mounts the folders of a run, and the parameters with the paths of these folders."""
    from tfx_gnn_pipelines.config import is_uri
    from tfx_gnn_pipelines.emulator.container_engine import ImageContainers, local_folders

    if is_uri(root):
        raise ValueError(
            f"`--root` must be a folder with --container, because containers have no network here; got {root!r}. Name "
            "a folder, or leave --container out."
        )
    changed, written, read = local_folders(values)
    if service is Service.VERTEX:
        # There, tasks read and write artifacts themselves.
        written.append(Path(folder).resolve() / "artifacts")
    return ImageContainers(kind, folders=written, read_only_folders=read), {**values, **changed}


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(
            f"`--parameter` must have the form NAME=VALUE; got {text!r}. Write, for example, num_epochs=3."
        )
    return name, value


def _compile(
    config: PipelineConfig,
    runner: Runner,
    output: str,
    *,
    image: str,
    resources: str,
    report_to: str,
    console: Console,
) -> None:
    from tfx_gnn_pipelines.compilation import compile_to
    from tfx_gnn_pipelines.resources import NO_RESOURCES, read_resources

    given = read_resources(resources) if resources else NO_RESOURCES
    job = compile_to(config, output, service=Service(runner.value), image=image, resources=given, report_to=report_to)
    values = job["runtimeConfig"]["parameterValues"]
    console.print(
        f"Wrote {output}: pipeline spec 2.1.0 for {runner.value}",
        style="bold",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    places = {
        "image": image,
        "root": config.root or "the cluster's default",
        "tables": values["tables_dir"],
        "push to": values["push_destination"],
    }
    for name, place in places.items():
        console.print(f"  {name:<8} {place}", markup=False, highlight=False, soft_wrap=True)
    trial = f"tfx-gnn run {output} --runner spec --parameter push_destination=FOLDER"
    for purpose, command in (("Try it on this machine", trial), ("Start a run of it", f"tfx-gnn submit {output}")):
        console.print(f"{purpose}: {command}", markup=False, highlight=False, soft_wrap=True)


def _list_tasks(console: Console) -> None:
    from tfx_gnn_pipelines.task import load_task, task_names

    for name in task_names():
        console.print(f"{name}  {load_task(name).description}", markup=False, highlight=False, soft_wrap=True)


def _print_how_to_go_on() -> None:
    PlainConsole(stderr=True).print(
        "Interrupted. Run the same command again: finished steps come from the cache, and a training goes on from its "
        "last checkpoint.",
        style="bold yellow",
        soft_wrap=True,
    )


def _print_error(error: Exception) -> None:
    console = PlainConsole(stderr=True)
    text = str(error) if is_house_message(str(error)) else f"{type(error).__name__}: {error}"
    console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    hint = "Run the command again with --debug for the traceback."
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.split(".")[0] in ("tfx", "kfp"):
        hint = "Install tfx-gnn with its extra 'kfp'."
    console.print(hint, style="dim", highlight=False, soft_wrap=True)
