"""What the supervisor tells a worker at its start, and what the worker reports. Both are one line of JSON."""

import msgspec
from msgspec import Struct


class Assignment(Struct, frozen=True, kw_only=True):
    """Said on the standard input of the worker, which stays open for as long as the supervisor lives.

    Never on the command line: ``database`` is a URL and may hold a password. ``http_socket`` and ``report`` are
    inherited file descriptors.
    """

    number: int
    database: str
    http_socket: int
    grpc_port: int
    report: int

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


class Report(Struct, frozen=True, kw_only=True):
    """The worker is ready; ``admin_port`` is its own admin listener, on loopback."""

    admin_port: int

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


read_assignment = msgspec.json.Decoder(Assignment).decode
read_report = msgspec.json.Decoder(Report).decode
