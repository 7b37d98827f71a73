"""A server in front of an object store's emulator: it counts requests, fails some, slows all down, and fills gaps.

It runs in a process of its own, so that its faults are seen by real clients alone:

    python store_front.py --port 443 --backend 127.0.0.1:4443 --certificate FILE --cloud-storage

`POST /-/faults` with a JSON object sets the fields of `Faults`, and starts the counting anew; `GET /-/counts` tells
what was asked and failed since.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import email
import email.policy
import http.client
import http.server
import json
import random
import re
import ssl
import sys
import threading
import time
import uuid
from typing import Any, ClassVar

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "proxy-connection", "te", "upgrade"}
_LINK = re.compile(rb'Link":"http://[^/"]+/')
_PIECE_BYTES = 1 << 16
_SECONDS = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong.

    Attributes:
        rate: share of requests that fail.
        seed: chooses which ones, by their number since the faults were set.
        kinds: how they fail, in turn: "refused" answers 503 and does nothing, "lost" answers 503 although the request
            was carried out, "forbidden" answers 403 and does nothing.
        methods: only requests with one of these fail; none for all requests.
        latency: seconds before each answer.
        bytes_per_second: of each connection, in both directions; 0 for no limit.
    """

    rate: float = 0.0
    seed: int = 0
    kinds: tuple[str, ...] = ("refused", "lost")
    methods: tuple[str, ...] = ()
    latency: float = 0.0
    bytes_per_second: float = 0.0


class Chance:
    """Says which requests fail, and counts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.set(Faults())

    def set(self, faults: Faults) -> None:
        with self._lock:
            self.faults = faults
            self.counts: collections.Counter[str] = collections.Counter()

    def draw(self, method: str) -> str:
        """Counts a request; returns how it fails, or ""."""
        with self._lock:
            number = self.counts["requests"]
            self.counts["requests"] += 1
            self.counts[method] += 1
            is_spared = self.faults.methods and method not in self.faults.methods
            if is_spared or random.Random(f"{self.faults.seed} {number}").random() >= self.faults.rate:
                return ""
            failed = sum(self.counts[kind] for kind in self.faults.kinds)
            kind = self.faults.kinds[failed % len(self.faults.kinds)]
            self.counts[kind] += 1
            return kind

    def add(self, name: str, number: int) -> None:
        with self._lock:
            self.counts[name] += number


@dataclasses.dataclass(kw_only=True)
class Answer:
    """A response of the store."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


def _error(status: int, reason: str) -> Answer:
    error = {"code": status, "message": f"Injected: {reason}.", "errors": []}
    kind = [("Content-Type", "application/json")]
    return Answer(status=status, reason=reason, headers=kind, body=json.dumps({"error": error}).encode())


_UNAVAILABLE = _error(503, "Service Unavailable")
_FORBIDDEN = _error(403, "Forbidden")


class Front(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits for the acknowledgement of the packet before.
    disable_nagle_algorithm = True
    chance: Chance
    backend: str
    is_cloud_storage: bool
    certificate: ssl.SSLContext | None
    # The last answer to each resumable upload.
    uploads: ClassVar[dict[str, Answer]] = {}

    def setup(self) -> None:
        if self.certificate is not None:
            self.request = self.certificate.wrap_socket(self.request, server_side=True)
        self.request.settimeout(_SECONDS)
        super().setup()
        self._store = http.client.HTTPConnection(self.backend, timeout=_SECONDS)

    def finish(self) -> None:
        super().finish()
        self._store.close()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        pass

    def do_any(self) -> None:
        body = self._read_body()
        if self.path == "/-/faults":
            self.chance.set(Faults(**json.loads(body)))
            self._send(Answer(status=200, reason="OK", headers=[], body=b"{}"))
        elif self.path == "/-/counts":
            counts = json.dumps(self.chance.counts).encode()
            self._send(Answer(status=200, reason="OK", headers=[], body=counts))
        elif self.is_cloud_storage and self.path == "/token":
            token = json.dumps({"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}).encode()
            self._send(Answer(status=200, reason="OK", headers=[("Content-Type", "application/json")], body=token))
        else:
            self._serve(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_any  # noqa: N815 - names in the base class

    def _serve(self, body: bytes) -> None:
        faults = self.chance.faults
        if faults.latency:
            time.sleep(faults.latency)
        kind = self.chance.draw(self.command)
        self.chance.add("bytes in", len(body))
        if kind in ("refused", "forbidden"):
            self._send(_FORBIDDEN if kind == "forbidden" else _UNAVAILABLE)
            return
        if self.is_cloud_storage and self.path.startswith("/batch"):
            answer = self._batch(body)
        elif self.is_cloud_storage and "upload_id=" in self.path:
            answer = self._upload(body)
        else:
            answer = self._ask(self.command, self.path, dict(self.headers.items()), body)
        self.chance.add("bytes out", len(answer.body))
        self.chance.add(f"status {answer.status}", 1)
        self._send(_UNAVAILABLE if kind == "lost" else answer)

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Passes a request on to the emulator."""
        kept = {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
        kept["Content-Length"] = str(len(body))
        try:
            self._store.request(method, path, body, kept)
            found = self._store.getresponse()
            content = found.read()
        except (http.client.HTTPException, OSError):
            # The emulator ended a connection that was idle.
            self._store.close()
            self._store.request(method, path, body, kept)
            found = self._store.getresponse()
            content = found.read()
        told = [(name, value) for name, value in found.getheaders() if name.lower() not in _HOP_BY_HOP]
        if self.is_cloud_storage:
            # The emulator does not know that its clients speak TLS to the front.
            told = [(name, value.replace("http://", "https://", 1)) for name, value in told]
            if found.headers.get_content_type() == "application/json" and "alt=media" not in path:
                content = _LINK.sub(b'Link":"https://storage.googleapis.com/', content)
        if method == "HEAD":
            told += [("Content-Length", found.headers.get("Content-Length", "0"))]
        return Answer(status=found.status, reason=found.reason, headers=told, body=content)

    def _upload(self, body: bytes) -> Answer:
        """Passes a part of a resumable upload on; says itself how far an upload came, which the emulator does not know.

        The emulator takes that question for the end of an upload, and makes an empty object.
        """
        session = self.path.rpartition("upload_id=")[2]
        none = Answer(status=308, reason="Resume Incomplete", headers=[], body=b"")
        before = self.uploads.get(session, none)
        is_question = self.headers.get("Content-Range", "").startswith("bytes */") and not body
        if not is_question and before.status == 308:
            self.uploads[session] = before = self._ask(self.command, self.path, dict(self.headers.items()), body)
        # A part of a finished upload is a client's that has not got its last answer.
        return before

    def _batch(self, body: bytes) -> Answer:
        """Carries the requests of a batch out one by one, as Cloud Storage does; the emulator does not know batches."""
        kind = self.headers["Content-Type"]
        whole = b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body
        parts = email.message_from_bytes(whole, policy=email.policy.HTTP)
        boundary = f"batch_{uuid.uuid4().hex}"
        answered = []
        for part in parts.iter_parts():
            text = part.get_payload(decode=True) or part.get_payload().encode()
            head, _, content = text.replace(b"\r\n", b"\n").partition(b"\n\n")
            first, *lines = head.decode().strip().split("\n")
            method, path = first.split()[:2]
            headers = dict(line.split(": ", 1) for line in lines if ": " in line)
            fault = self.chance.draw(f"{method} in a batch")
            answer = _UNAVAILABLE if fault == "refused" else self._ask(method, path, headers, content.strip())
            if fault:
                answer = _UNAVAILABLE
            told = [f"HTTP/1.1 {answer.status} {answer.reason}"]
            told += [f"{name}: {value}" for name, value in answer.headers]
            told += [f"Content-Length: {len(answer.body)}", "", ""]
            inside = "\r\n".join(told).encode() + answer.body
            # Clients match the answers by their order.
            answered.append(f"--{boundary}\r\nContent-Type: application/http\r\n\r\n".encode() + inside + b"\r\n")
        return Answer(
            status=200,
            reason="OK",
            headers=[("Content-Type", f"multipart/mixed; boundary={boundary}")],
            body=b"".join(answered) + f"--{boundary}--\r\n".encode(),
        )

    def _read_body(self) -> bytes:
        # TensorFlow sends "identity", which says nothing and which Go's server refuses.
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            body = b"".join(pieces)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._take_time(len(body))
        return body

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers:
            self.send_header(name, value)
        has_length = any(name.lower() == "content-length" for name, _ in answer.headers)
        if not has_length and answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        for start in range(0, len(answer.body), _PIECE_BYTES):
            piece = answer.body[start : start + _PIECE_BYTES]
            self.wfile.write(piece)
            self._take_time(len(piece))

    def _take_time(self, num_bytes: int) -> None:
        if self.chance.faults.bytes_per_second:
            time.sleep(num_bytes / self.chance.faults.bytes_per_second)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that are killed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--certificate", default="", help="server.pem beside server.key; empty for no TLS")
    parser.add_argument("--cloud-storage", action="store_true")
    given = parser.parse_args()
    Front.chance = Chance()
    Front.backend = given.backend
    Front.is_cloud_storage = given.cloud_storage
    Front.certificate = None
    if given.certificate:
        Front.certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        Front.certificate.load_cert_chain(given.certificate, given.certificate.replace(".pem", ".key"))
    _Server(("127.0.0.1", given.port), Front).serve_forever()


if __name__ == "__main__":
    main()
