"""Shows this library's artifacts in notebooks, where TFX's InteractiveContext displays them."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from typing import ClassVar

from tfx.orchestration.experimental.interactive import visualizations
from tfx.types import artifact

from tfx_gnn.components.artifacts import (
    ExamplesBlessingArtifact,
    GraphSchemaArtifact,
    SizeConstraintsArtifact,
    SkewReportArtifact,
)
from tfx_gnn.graph.schema import schema_io
from tfx_gnn.io.text_files import read_json
from tfx_gnn.records.blessing import is_blessed, read_reasons
from tfx_gnn.records.examples_folder import graph_schema_path
from tfx_gnn.reports.data_figures import set_rows
from tfx_gnn.reports.report_page import render_page
from tfx_gnn.reports.schema_diagram import draw_schema


def register_notebook_views() -> None:
    """Lets TFX's InteractiveContext show the artifacts of this library.

    Call it once in a notebook. Then `context.show(component.outputs["graph_schema"])` draws the schema, and budgets,
    verdicts and skew reports are shown as tables.
    """
    for view in (_GraphSchemaView, _SizeConstraintsView, _ExamplesBlessingView, _SkewReportView):
        visualizations.get_registry().register(view)


class _View(visualizations.ArtifactVisualization):
    """Displays the HTML of an artifact."""

    ARTIFACT_TYPE: ClassVar[type[artifact.Artifact]]

    @abc.abstractmethod
    def html(self, folder: str) -> str:
        """Renders the artifact in a folder."""

    def display(self, artifact: artifact.Artifact) -> None:
        from IPython.display import HTML, display

        display(HTML(self.html(artifact.uri)))


class _GraphSchemaView(_View):
    ARTIFACT_TYPE = GraphSchemaArtifact

    def html(self, folder: str) -> str:
        schema = schema_io.read_schema(graph_schema_path(folder))
        rows = [
            (row.kind, row.name, row.ends, ", ".join(f"{name}: {dtype}" for name, dtype, _ in row.features))
            for row in set_rows(schema, {})
        ]
        return _render("Graph schema", ("kind", "name", "ends", "features"), rows, drawing=draw_schema(schema))


class _SizeConstraintsView(_View):
    ARTIFACT_TYPE = SizeConstraintsArtifact

    def html(self, folder: str) -> str:
        budgets = read_json(os.path.join(folder, "size_constraints.json"))["budgets"]
        rows = [
            (
                name,
                f"{100 * budget['fill']:.1f}%",
                f"{budget['graphs_per_batch']:.1f}",
                f"{sum(budget['total_num_nodes'].values()):,}",
                f"{sum(budget['total_num_edges'].values()):,}",
            )
            for name, budget in budgets.items()
        ]
        return _render("Padding budgets", ("budget", "full", "graphs in a batch", "nodes", "edges"), rows)


class _ExamplesBlessingView(_View):
    ARTIFACT_TYPE = ExamplesBlessingArtifact

    def html(self, folder: str) -> str:
        verdict = "blessed" if is_blessed(folder) else "not blessed"
        return _render(f"Examples: {verdict}", ("reason",), [(reason,) for reason in read_reasons(folder)])


class _SkewReportView(_View):
    ARTIFACT_TYPE = SkewReportArtifact

    def html(self, folder: str) -> str:
        report = read_json(os.path.join(folder, "skew.json"))
        rows = [
            (one["key"], f"{one['num_values']:,}", f"{one['num_differing']:,}", str(one["largest_difference"]))
            for one in (*report["features"], *report["outputs"])
        ]
        title = f"Skew: {'blessed' if report['blessed'] else 'not blessed'}; {'; '.join(report['reasons'])}"
        return _render(title, ("what", "values", "that differ", "largest difference"), rows)


def _render(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], drawing: str = "") -> str:
    return render_page("notebook_view.html.j2", title=title, heads=heads, rows=rows, drawing=drawing)
