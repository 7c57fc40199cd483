"""A payload passes through without ever being whole in memory (docs/reference/entities.md#edge-messages; the service
is this process).
"""

import http.client
import tracemalloc
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.service import PATIENCE_S, Api, done

PART = b"x" * 65536
PARTS = 150
HEAD, TAIL = b'{"payload": "', b'"}'
SIZE = len(HEAD) + PARTS * len(PART) + len(TAIL)
"""9.4 MiB, close to the limit."""

A_FEW_PARTS = 3_000_000


def connection_to(api: Api) -> http.client.HTTPConnection:
    parts = urlsplit(api.url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)


def body() -> Iterator[bytes]:
    yield HEAD
    for _ in range(PARTS):
        yield PART
    yield TAIL


def send(api: Api) -> str:
    """The id of a message sent part by part."""
    connection = connection_to(api)
    headers = {
        "Authorization": f"Bearer {api.token}",
        "Content-Type": "application/json",
        "Content-Length": str(SIZE),
    }
    connection.request("POST", "/api/message/new/bulk", body(), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    return text.split('"entityIds":["')[1][:36]


def receive(api: Api, message: str) -> int:
    """How long the answer is; it is read part by part, too."""
    connection = connection_to(api)
    connection.request("GET", f"/api/message/{message}", headers={"Authorization": f"Bearer {api.token}"})
    answer = connection.getresponse()
    assert answer.status == 200
    size = 0
    while part := answer.read(len(PART)):
        size += len(part)
    connection.close()
    return size


def test_a_long_payload_is_never_whole_in_memory(api: Api) -> None:
    receive(api, send(api))  # what is loaded and cached once is no matter of this test
    tracemalloc.start()
    try:
        message = send(api)
        _, sending = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        size = receive(api, message)
        _, receiving = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > PARTS * len(PART)
    assert sending < A_FEW_PARTS, sending
    assert receiving < A_FEW_PARTS, receiving
    done(api.delete(f"/message/{message}"))
