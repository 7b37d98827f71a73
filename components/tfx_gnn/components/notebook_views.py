"""Shows this library's artifacts in notebooks, where TFX's InteractiveContext displays them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

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
    # The steps' functions, which are in the same package, do without TFX.
    from tfx.orchestration.experimental.interactive import visualizations
    from tfx.types import artifact

    from tfx_gnn.components import artifacts

    def view_of(kind: type[artifact.Artifact], render: Callable[[str], str]) -> type[Any]:
        class View(visualizations.ArtifactVisualization):
            """Displays the HTML of an artifact."""

            ARTIFACT_TYPE = kind

            def html(self, folder: str) -> str:
                """Renders the artifact in a folder."""
                return render(folder)

            def display(self, artifact: artifact.Artifact) -> None:
                from IPython.display import HTML, display

                display(HTML(self.html(artifact.uri)))

        return View

    registry = visualizations.get_registry()
    registry.register(view_of(artifacts.GraphSchemaArtifact, _graph_schema))
    registry.register(view_of(artifacts.SizeConstraintsArtifact, _size_constraints))
    registry.register(view_of(artifacts.ExamplesBlessingArtifact, _examples_blessing))
    registry.register(view_of(artifacts.SkewReportArtifact, _skew_report))
    registry.register(view_of(artifacts.InferenceTableArtifact, _inference))


def _graph_schema(folder: str) -> str:
    schema = schema_io.read_schema(graph_schema_path(folder))
    rows = [
        (row.kind, row.name, row.ends, ", ".join(f"{name}: {dtype}" for name, dtype, _ in row.features))
        for row in set_rows(schema, {})
    ]
    return _render("Graph schema", ("kind", "name", "ends", "features"), rows, drawing=draw_schema(schema))


def _size_constraints(folder: str) -> str:
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


def _examples_blessing(folder: str) -> str:
    verdict = "blessed" if is_blessed(folder) else "not blessed"
    return _render(f"Examples: {verdict}", ("reason",), [(reason,) for reason in read_reasons(folder)])


def _skew_report(folder: str) -> str:
    report = read_json(os.path.join(folder, "skew.json"))
    rows = [
        (one["key"], f"{one['num_values']:,}", f"{one['num_differing']:,}", str(one["largest_difference"]))
        for one in (*report["features"], *report["outputs"])
    ]
    title = f"Skew: {'blessed' if report['blessed'] else 'not blessed'}; {'; '.join(report['reasons'])}"
    return _render(title, ("what", "values", "that differ", "largest difference"), rows)


def _inference(folder: str) -> str:
    found = read_json(os.path.join(folder, "inference.json"))
    rows = [
        (split, f"{number:,}", f"{found['num_refused'][split]:,}", f"{found['num_rows'][split]:,}")
        for split, number in found["num_examples"].items()
    ]
    title = "Answers" if found["blessed"] else f"Not asked: {'; '.join(found['reasons'])}"
    return _render(title, ("split", "examples", "refused", "rows"), rows)


def _render(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], drawing: str = "") -> str:
    return render_page("notebook_view.html.j2", title=title, heads=heads, rows=rows, drawing=drawing)
