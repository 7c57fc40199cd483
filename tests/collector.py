"""A collector of spans for tests: takes OTLP over HTTP, as collectors do, and remembers what it was sent."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.builders import Json


class Seen(Struct, frozen=True, kw_only=True):
    """A span as it arrived."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Json]
    failed: bool
    links: tuple[tuple[str, str], ...]


class Collector:
    """What arrived, in order. ``raw`` are the bodies."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans: list[Seen] = []
        self.raw: list[bytes] = []
        self.resource: dict[str, Json] = {}
        self._arrived = threading.Condition()

    def take(self, body: bytes) -> None:
        """A message of a service."""
        message = ExportTraceServiceRequest.FromString(body)
        with self._arrived:
            self.raw.append(body)
            for resource in message.resource_spans:
                self.resource = {each.key: _read(each.value) for each in resource.resource.attributes}
                self.spans += [_see(span) for scope in resource.scope_spans for span in scope.spans]
            self._arrived.notify_all()

    def wait_for(self, fact: Callable[[list[Seen]], object], *, within_s: float = 20.0) -> list[Seen]:
        """All spans so far, once there is what a test waits for."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: fact(self.spans), timeout=within_s), [s.name for s in self.spans]
            return list(self.spans)


@contextmanager
def a_collector() -> Iterator[Collector]:
    """A collector that listens while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _see(span: Span) -> Seen:
    return Seen(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes={each.key: _read(each.value) for each in span.attributes},
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
    )


def _read(value: Json) -> Json:
    kind = value.WhichOneof("value")
    return [_read(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
