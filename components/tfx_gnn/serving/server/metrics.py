"""Metrics in Prometheus' form."""

from __future__ import annotations

from typing import Any

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

_LATENCIES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class ServerMetrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        ProcessCollector(registry=self.registry)
        add: Any = {"registry": self.registry, "namespace": "tfx_gnn"}
        self.requests = Counter("requests", "Responses by route and HTTP status.", ["route", "status"], **add)
        self.refusals = Counter("refusals", "Requests without a prediction, by the rule they broke.", ["reason"], **add)
        self.latency = Histogram(
            "request_seconds", "Time from head to end of response.", ["route"], buckets=_LATENCIES, **add
        )
        self.pending_requests = Gauge("pending_requests", "Requests being read, waiting or answered.", **add)
        self.pending_bytes = Gauge("pending_bytes", "Bytes of the bodies of these requests.", **add)
        self.queued_requests = Gauge("queued_requests", "Requests that wait for a call of the model.", **add)
        self.batch_examples = Histogram(
            "batch_examples", "Examples in a call of the model or sampler.", buckets=_SIZES, **add
        )
        self.batch_requests = Histogram("batch_requests", "Requests in such a call.", buckets=_SIZES, **add)
        self.ids = Counter("ids", "Nodes or pairs that were asked about by id.", **add)
        self.sampling = Histogram(
            "sampling_seconds", "Time to sample the subgraphs of a call of the model.", buckets=_LATENCIES, **add
        )
        self.graph_swaps = Counter("graph_swaps", "Times that another graph index took over.", **add)
        self.graphs_passed_over = Gauge(
            "graph_indexes_passed_over", "Newer graph indexes that cannot be served; see the log.", **add
        )
        self.overlay_rows = Gauge("overlay_rows", "Nodes and edges on top of the graph index.", ["kind"], **add)
        self.overlay_bytes = Gauge("overlay_bytes", "Size of the overlay, the log with these nodes and edges.", **add)
        self.overlay_writes = Histogram(
            "overlay_write_seconds", "Time to write rows to the overlay, fsync included.", buckets=_LATENCIES, **add
        )
        self.embeddings_created = Gauge(
            "embeddings_created_seconds", "When the stored embeddings were made, in seconds since 1970.", **add
        )
        self.embeddings_stale = Gauge(
            "embeddings_stale", "1 while stored embeddings are refused: too old, of another model, or none.", **add
        )
        self.current_version = Gauge("model_version", "Version that answers requests that name none.", **add)
        self.versions = Gauge("model_versions", "Number of versions that are served.", **add)
        self.swaps = Counter("model_swaps", "Times that another version became the current one.", **add)
        self.load_failures = Counter("model_load_failures", "Times that a version could not be loaded.", **add)
        self.watch_failures = Counter("model_watch_failures", "Times that the folder could not be searched.", **add)
        self.load_seconds = Gauge("model_load_seconds", "Time to load and warm up the last version.", **add)

    def text(self) -> tuple[bytes, str]:
        """Returns all metrics, and the content type."""
        return prometheus_client.generate_latest(self.registry), prometheus_client.CONTENT_TYPE_LATEST
