"""Messages between the service and its computing processes, over a socket: a length, and a pickle of so many bytes.

Pickling and unpickling hold the interpreter, and large values take long. But a pickle consists of frames of some 64
KiB, and between two of them the pickler writes, and the unpickler reads, by methods of Python: there other threads have
their turn. So threads can send and receive values of any size while the event loop goes on.
"""

import io
import pickle
import socket
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

PROTOCOL: Final = 5
LENGTH_BYTES: Final = 8

BYTES_PER_S: Final = 4 * 1024 * 1024
"""What is pickled, sent and unpickled in a second by a machine that has other things to do: by so much the time for a
computation is longer.
"""


Task: TypeAlias = Callable[[], object]
"""What a process is to do: a function at the top of a module with its arguments (``functools.partial``)."""

Outcome: TypeAlias = tuple[Literal["done", "failed", "memory"], object]
"""With the result, or what was raised."""


class MessageTooLarge(Exception):
    """A message has more bytes than its receiver takes."""


class _Frames(io.RawIOBase):
    """Collects what a pickler writes."""

    def __init__(self, limit: int | None) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self._limit = limit

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override] # narrower than a buffer
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            raise MessageTooLarge
        self.parts.append(bytes(data))
        return len(data)


class _Reader:
    """What an unpickler reads, in Python."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        end = len(self._data) if size < 0 else self._at + size
        found = bytes(self._data[self._at : end])
        self._at += len(found)
        return found

    def readline(self) -> bytes:
        found = self.read()
        line, newline, _ = found.partition(b"\n")
        self._at -= len(found) - len(line) - len(newline)
        return line + newline


class _Pickler(pickle.Pickler):
    """Pickles what restores neither exceptions nor structs as they were otherwise."""

    def reducer_override(self, obj: object) -> Any:  # Any: as the protocol of pickling has it
        if isinstance(obj, Struct) and _list_identities(type(obj)):
            return _restore_struct, (type(obj), tuple([getattr(obj, name) for name in obj.__struct_fields__]))
        if isinstance(obj, BaseException):
            return _restore_raised, (type(obj), obj.args, obj.__dict__)
        return NotImplemented


def _restore_raised(
    kind: type[BaseException], arguments: tuple[object, ...], members: dict[str, object]
) -> BaseException:
    """Without calling what makes such exceptions, whose arguments may be others."""
    raised = kind.__new__(kind, *arguments)
    raised.args = arguments
    raised.__dict__.update(members)
    return raised


def _restore_struct(kind: type[Struct], values: tuple[object, ...]) -> Struct:
    """With the very objects that are defaults where it had them: by these documents know what to leave out."""
    members = dict(zip(kind.__struct_fields__, values, strict=True))
    for name, default in _list_identities(kind):
        if members[name] == default:
            members[name] = default
    return kind(**members)


@cache
def _list_identities(kind: type[Struct]) -> tuple[tuple[str, object], ...]:
    """The fields whose defaults are objects that a pickle makes copies of."""
    fields, defaults = kind.__struct_fields__, kind.__struct_defaults__
    named = zip(fields[len(fields) - len(defaults) :], defaults, strict=True)
    return tuple((name, default) for name, default in named if isinstance(default, str | Struct) and default)


def encode(message: object, limit: int | None = None) -> list[bytes]:
    """The bytes of a message. Raises ``MessageTooLarge``, and whatever pickling raises."""
    frames = _Frames(limit)
    _Pickler(frames, PROTOCOL).dump(message)
    return [frames.size.to_bytes(LENGTH_BYTES, "big"), *frames.parts]


def decode(data: bytearray) -> object:
    """The message. Only for what a process of this service has sent."""
    return pickle.Unpickler(_Reader(memoryview(data))).load()  # noqa: S301 - from a process that this one started


def measure(parts: list[bytes]) -> int:
    """The size of an encoded message."""
    return int.from_bytes(parts[0], "big")


def send(connection: socket.socket, parts: list[bytes]) -> None:
    """Raises ``TimeoutError``, ``OSError``."""
    for part in parts:
        connection.sendall(part)


def receive(connection: socket.socket, before_each: Callable[[], None] = lambda: None) -> bytearray | None:
    """The bytes of the next message; None: the other end is gone. ``before_each`` is called before each wait, and again
    when the socket has timed out.

    Raises ``OSError``, and what ``before_each`` raises.
    """
    head = _receive_bytes(connection, LENGTH_BYTES, before_each)
    return None if head is None else _receive_bytes(connection, int.from_bytes(head, "big"), before_each)


def _receive_bytes(connection: socket.socket, size: int, before_each: Callable[[], None]) -> bytearray | None:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        before_each()
        try:
            received = connection.recv_into(rest)
        except TimeoutError:
            continue
        if not received:
            return None
        rest = rest[received:]
    return data
