"""The description of the server's routes in OpenAPI's form, and a page of it without scripts."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterable
from typing import Any

import tfx_gnn
from tfx_gnn.io.page_style import PAGE_STYLE
from tfx_gnn.serving.server.examples_input import INPUTS
from tfx_gnn.serving.server.graph_rows import ROW_PARTS
from tfx_gnn.serving.server.options import ServerOptions

_ROWS = {
    "nodes": {"user": {"#id": ["eve"], "age": [30]}},
    "edges": {"buys": {"#source": ["eve", "eve"], "#target": ["i3", "i8"]}},
}
_PREDICT_BODIES = {
    "examples": {"instances": [{"b64": "<base64 of a serialized tf.Example>"}]},
    "graphs": {
        "instances": [
            {
                "node_sets": {"user": {"age": [31, 42]}, "item": {"price": [9.5]}},
                "edge_sets": {"buys": {"source": [0, 1], "target": [0, 0]}},
                "readout": {"seed": 0},
            }
        ]
    },
    "ids": {"instances": [{"id": "u1"}, {"id": "u2"}]},
    "new nodes": {"instances": [{"id": "eve", **_ROWS}]},
    "ids as of a time": {"instances": [{"id": "u1", "context": {"time": "2026-02-01T00:00:00Z"}}]},
}
_INFER_BODIES = {
    "examples": {"inputs": [{"name": "examples", "shape": [1], "datatype": "BYTES", "data": [{"b64": "<base64>"}]}]},
    "ids": {"inputs": [{"name": "ids", "shape": [2], "datatype": "BYTES", "data": ["u1", "u2"]}]},
}
_SUMMARIES = {
    "/v2": "Name, version and extensions of the server",
    "/v2/health/live": "Whether the process answers",
    "/v2/health/ready": "Whether it serves a model: 503 before, and while it stops",
    "/v2/models/{model}": "Inputs, outputs and versions of the model",
    "/v2/models/{model}/ready": "Whether a version of the model is served",
    "/v2/models/{model}/infer": "Predictions, in the Open Inference Protocol",
    "/v1/models/{model}:predict": "Predictions, in TensorFlow Serving's protocol",
    "/v1/models/{model}:sample": "The examples that the model would be asked about, without asking it",
    "/v1/models/{model}:rank": "The best of some candidate links of a node, or of all with stored embeddings",
    "/v1/models/{model}:embed": "Stored embeddings by id, without calling the model",
    "/v1/models/{model}:nearest": "The nodes whose stored embeddings have the largest inner products with one",
    "/v1/models/{model}/metadata": "Signatures of the model, in TensorFlow Serving's form",
    "/v1/models/{model}": "States of versions, in TensorFlow Serving's form",
    "/v1/graph": "The graph whose ids are asked, and how much was added to it",
    "/v1/graph:add": "Adds nodes and edges, which are on disk and seen by the next request once it is answered",
    "/v1/embeddings": "The stored embeddings, how old they are, and whether they answer",
    "/metrics": "Metrics in Prometheus' form",
    "/openapi.json": "This description",
    "/docs": "This description as a page",
}
_HEALTH = re.compile(r"^/v2/health/|^/v2/models/\{model\}/ready$")
"""Paths that need no token."""
_UNSEEN = (
    "the answer; from models that look ids up in a vocabulary, also whether it lacks them: `unseen_id`, or "
    "`unseen_source_id` and `unseen_target_id`"
)
_ANSWERS = {
    ":predict": _UNSEEN,
    "/infer": _UNSEEN,
    ":rank": _UNSEEN,
    ":sample": '`{"examples": [{"b64": ...}]}`: serialized tf.Examples, in the order of `instances`',
}
"""What answers hold, by the end of the path, where there is more to say."""
_ERRORS = {
    "400": "the body or a graph in it does not have the form that the message names",
    "401": "no token that the server knows",
    "403": "the token does not allow this, a page of another site asks, or the server has no overlay to add to",
    "404": "no such path, model or version, no node with this id, or no graph",
    "405": "no such method",
    "408": "the body did not arrive in time",
    "409": "a new node is there already",
    "413": "the body is too large",
    "415": "the body is of another type than `Content-Type: application/json`, or compressed",
    "421": "`Host` is no name of the server",
    "429": "too many requests wait; `Retry-After` says when to try again",
    "500": "the server or the model failed",
    "503": "rows could not be written to disk, and nothing was added; stored embeddings are too old; or there are too "
    "many connections",
    "504": "the response was not ready in time",
    "507": "too many rows were added to the graph",
}


def openapi_document(options: ServerOptions, routes: Iterable[tuple[str, Collection[str]]]) -> dict[str, Any]:
    """Describes routes, given their paths and methods, as OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for path, methods in routes:
        for method in sorted(set(methods) - {"HEAD"}):
            paths.setdefault(path, {})[method.lower()] = _operation(path, method, options)
    security = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if options.token_file else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Predictions of the model {options.model_name}", "version": tfx_gnn.__version__},
        "paths": paths,
        "components": {
            **security,
            "schemas": {
                "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
                "Predict": _PREDICT_SCHEMA,
                "Sample": _SAMPLE_SCHEMA,
                "Infer": _INFER_SCHEMA,
                "Add": _ADD_SCHEMA,
                "Rank": _RANK_SCHEMA,
                "Embed": _EMBED_SCHEMA,
                "Nearest": _NEAREST_SCHEMA,
            },
        },
    }


_PREDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "signature_name": {"type": "string", "description": "`embeddings`, or none for predictions."},
        "instances": {
            "type": "array",
            "description": "One for each example: the example, a graph as an object, or, with a graph index, an id, "
            "and nodes and edges that the graph lacks.",
            "items": {"type": "object"},
        },
        "inputs": {"description": "The same as a list, or under the name of the input, for an answer by output."},
    },
}
_SAMPLE_SCHEMA = {
    "type": "object",
    "required": ["instances"],
    "properties": {"instances": _PREDICT_SCHEMA["properties"]["instances"]},
}
_INFER_SCHEMA = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object", "properties": {"signature_name": {"type": "string"}}},
        "inputs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "shape", "datatype"],
                "properties": {
                    "name": {"enum": list(INPUTS)},
                    "shape": {"type": "array", "items": {"type": "integer"}},
                    "datatype": {"enum": ["BYTES", "INT64"]},
                    "parameters": {"type": "object"},
                    "data": {"type": "array"},
                },
            },
        },
        "outputs": {"type": "array", "items": {"type": "object"}},
    },
}


_ADD_SCHEMA = {
    "type": "object",
    "properties": {
        part: {
            "type": "object",
            "description": f"New {part} by set and column: a list with one value for each of them.",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "array"}},
        }
        for part in ROW_PARTS
    },
}
_RANK_SCHEMA = {
    "type": "object",
    "required": ["source"],
    "properties": {
        "source": {"description": "Id of a node."},
        "candidates": {"type": "array", "description": "Ids of nodes that it may be linked to."},
        "retrieve": {
            "type": "integer",
            "minimum": 1,
            "description": "Without `candidates`, how many of the nearest stored embeddings are; 100 by default.",
        },
        "k": {"type": "integer", "minimum": 1, "description": "How many are wanted; all by default, 10 of retrieved."},
        "task": {"type": "string", "description": "Name of the task, in a model of several."},
    },
}
_EMBED_SCHEMA = {
    "type": "object",
    "required": ["ids"],
    "properties": {"ids": {"type": "array", "description": "Ids with stored embeddings."}},
}
_NEAREST_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"description": "Id with a stored embedding; it is not among the answers."},
        "embedding": {"type": "array", "items": {"type": "number"}, "description": "A vector in place of `id`."},
        "k": {"type": "integer", "minimum": 1, "description": "How many are wanted; 10 by default."},
    },
}
_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "/infer": ("Infer", _INFER_BODIES),
    ":predict": ("Predict", _PREDICT_BODIES),
    ":sample": ("Sample", {title: _PREDICT_BODIES[title] for title in ("ids", "new nodes", "graphs")}),
    ":rank": (
        "Rank",
        {
            "candidates": {"source": "u1", "candidates": ["i3", "i8", "i9"], "k": 2},
            "all nodes": {"source": "u1", "retrieve": 100, "k": 2},
        },
    ),
    ":embed": ("Embed", {"ids": {"ids": ["u1", "u2"]}}),
    ":nearest": ("Nearest", {"of a node": {"id": "u1", "k": 2}, "of a vector": {"embedding": [0.5, -1.25], "k": 2}}),
    ":add": ("Add", {"rows": _ROWS}),
}
"""By the end of the path, the schema of the body, and examples."""


def _operation(path: str, method: str, options: ServerOptions) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", path)
    answer = next((text for end, text in _ANSWERS.items() if path.endswith(end)), "the answer")
    operation: dict[str, Any] = {
        "summary": _SUMMARIES[path.replace("/versions/{version}", "")],
        "responses": {"200": {"description": answer}},
    }
    if names:
        of_names = {"model": options.model_name, "version": "1"}
        operation["parameters"] = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": {"type": "string"},
                "example": of_names[name],
            }
            for name in names
        ]
        operation["responses"]["404"] = _error("404")
    if options.token_file and not _HEALTH.search(path):
        operation["security"] = [{"token": []}]
        operation["responses"].update({status: _error(status) for status in ("401", "403")})
    if method == "POST":
        ((name, bodies),) = (found for end, found in _BODIES.items() if path.endswith(end))
        examples = {title: {"value": body} for title, body in bodies.items()}
        schema = {"$ref": f"#/components/schemas/{name}"}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema, "examples": examples}},
        }
        operation["responses"].update({status: _error(status) for status in _ERRORS})
    return operation


def _error(status: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": _ERRORS[status], "content": {"application/json": {"schema": schema}}}


_STYLE = """\
pre {
  background: var(--raised); border-radius: .375rem; padding: .625rem .75rem; margin: .25rem 0 .75rem;
  overflow-x: auto; font: .8125rem/1.45 ui-monospace, monospace;
}
details { border-top: 1px solid var(--line); padding: .125rem 0; }
details:last-of-type { border-bottom: 1px solid var(--line); }
summary {
  display: grid; grid-template-columns: 4.25rem minmax(0, 24rem) 1fr; gap: .125rem .75rem; align-items: baseline;
}
summary .method::before { content: "\\25b8\\00a0"; font-weight: 400; }
details[open] > summary .method::before { content: "\\25be\\00a0"; }
summary:hover, details[open] > summary { background: var(--raised); }
summary .method { font-size: .8125rem; font-weight: 600; color: var(--muted); padding-left: .375rem; }
.body { padding: .25rem .375rem .5rem 5rem; }
.body h3 { font-size: .875rem; color: var(--muted); margin: 0; }
@media (max-width: 46rem) {
  summary { grid-template-columns: 4.25rem 1fr; } summary .what { grid-column: 2; } .body { padding-left: .375rem; }
}
"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="muted">tfx-gnn {version}. The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>
</header>
<main>
<h2>Routes</h2>
{operations}
<h2>Errors</h2>
<dl>{errors}</dl>
</main>
</body>
</html>
"""


def openapi_page(document: dict[str, Any]) -> str:
    """Writes a description as HTML that loads nothing else, in the style of the reports."""
    operations = [
        f'<details><summary><span class="method">{method.upper()}</span> <code>{html.escape(path)}</code> '
        f'<span class="what">{html.escape(operation["summary"])}</span></summary>'
        f'<div class="body">{_examples(operation)}</div></details>'
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    errors = "".join(f"<dt>{status}</dt><dd>{html.escape(meaning)}</dd>" for status, meaning in _ERRORS.items())
    return _PAGE.format(
        title=html.escape(document["info"]["title"]),
        version=html.escape(document["info"]["version"]),
        style=PAGE_STYLE + _STYLE,
        operations="\n".join(operations),
        errors=errors,
    )


def _examples(operation: dict[str, Any]) -> str:
    body = operation.get("requestBody")
    if body is None:
        return "<p>No body.</p>"
    shown = [
        f"<h3>{html.escape(title)}</h3><pre>{html.escape(json.dumps(example['value'], indent=1))}</pre>"
        for title, example in body["content"]["application/json"]["examples"].items()
    ]
    return "".join(shown)
