"""Options of the commands for runs and schedules on Kubeflow Pipelines and Vertex AI."""

from __future__ import annotations

from typing import Annotated

import typer

from tfx_gnn.io.folded_help import FOLDED

KUBEFLOW_PANEL = "Kubeflow Pipelines"
VERTEX_PANEL = "Vertex AI"
_COMMON = "Both services"

Run = Annotated[str, typer.Argument(help="Run, as `submit` printed it, or the address of its page.", metavar="RUN")]
CompiledFile = Annotated[
    str, typer.Argument(help="Compiled pipeline, as `--compile-only` writes it; it says for which service.")
]
Host = Annotated[
    str,
    typer.Option(
        help="Address of Kubeflow Pipelines, as in http://localhost:8888. Default: KF_PIPELINES_ENDPOINT.",
        show_default=False,
        rich_help_panel=KUBEFLOW_PANEL,
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        help="Your namespace, where Kubeflow has several users.", show_default=False, rich_help_panel=KUBEFLOW_PANEL
    ),
]
CookieFile = Annotated[
    str,
    typer.Option(
        help="File with the cookies of a login, as in 'name=value; name=value'.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=KUBEFLOW_PANEL,
    ),
    FOLDED,
]
CaCert = Annotated[
    str,
    typer.Option(
        help="File with the certificate authorities to trust.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=KUBEFLOW_PANEL,
    ),
    FOLDED,
]
TokenFile = Annotated[
    str,
    typer.Option(
        help="File with an access token; it is read again for later requests. Default on Kubeflow: "
        "KF_PIPELINES_SA_TOKEN_PATH, or the token of a pod; on Vertex AI: application default credentials. There is no "
        "option for the token itself, because other users of a machine see command lines.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=_COMMON,
    ),
]
Project = Annotated[
    str,
    typer.Option(
        help="Project of Google Cloud. Default: GOOGLE_CLOUD_PROJECT.", show_default=False, rich_help_panel=VERTEX_PANEL
    ),
]
Region = Annotated[
    str,
    typer.Option(
        help="Region, as in europe-west4. Default: GOOGLE_CLOUD_REGION or CLOUD_ML_REGION.",
        show_default=False,
        rich_help_panel=VERTEX_PANEL,
    ),
]
Endpoint = Annotated[
    str,
    typer.Option(
        help="Address of the API, where it is not the region's public one.",
        show_default=False,
        rich_help_panel=VERTEX_PANEL,
    ),
    FOLDED,
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Parameter = Annotated[
    list[str] | None,
    typer.Option(
        help="Value of a parameter of the pipeline, as in num_epochs=3; repeatable.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        help="Label, as in team=search; repeatable. Runs of Kubeflow have none; there they are in the description.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]
Root = Annotated[
    str, typer.Option(help="Where outputs go, instead of the root in the file.", metavar="URI", show_default=False)
]
Experiment = Annotated[
    str,
    typer.Option(
        help="Experiment that the run belongs to; it is created if it does not exist. Default on Kubeflow: "
        "KF_PIPELINES_DEFAULT_EXPERIMENT_NAME, or Default.",
        show_default=False,
    ),
]
Name = Annotated[str, typer.Option(help="Display name.", show_default="the pipeline's name and the time")]
Submission = Annotated[
    str,
    typer.Option(
        help="Text that names this submission, such as a date; given again, it finds the run instead of starting a "
        "second one.",
        metavar="TEXT",
        show_default=False,
    ),
    FOLDED,
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Run every task anew.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the request as JSON, and send nothing; needs no network and no login.")
]
ServiceAccount = Annotated[str, typer.Option(help="Account that the tasks run as.", show_default=False), FOLDED]
Network = Annotated[
    str,
    typer.Option(
        help="VPC network of the tasks, as in projects/NUMBER/global/networks/NAME.",
        show_default=False,
        rich_help_panel=VERTEX_PANEL,
    ),
    FOLDED,
]
EncryptionKey = Annotated[
    str, typer.Option(help="Full name of a key of Cloud KMS.", show_default=False, rich_help_panel=VERTEX_PANEL), FOLDED
]
PollSeconds = Annotated[float, typer.Option(help="Seconds between two questions for the state.", min=1, max=86400)]
Timeout = Annotated[float | None, typer.Option(help="Seconds to wait at most.", min=0, show_default="no limit")]
