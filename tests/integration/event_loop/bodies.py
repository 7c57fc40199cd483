"""Bodies that are slow to work on, as large as they may be.

What a turn of the event loop takes must not depend on the size, so most bodies are smaller in the usual run than what a
client may send. ``STATEWRIGHT_TEST_LIMITS=1`` makes all of them as large as that.
"""

import json
import os
from collections.abc import Callable
from functools import cache
from typing import Final

MAX_BODY: Final = 10 * 1024 * 1024
"""Bytes that a request may have."""

_ROOM: Final = 1000

MAX_EVENT: Final = 4 * 1024 * 1024
"""Bytes of a gRPC message."""

USUAL_BODY: Final = MAX_BODY if os.environ.get("STATEWRIGHT_TEST_LIMITS") else 1024 * 1024

USUAL_EVENT: Final = min(USUAL_BODY, MAX_EVENT - _ROOM)
"""What a gRPC message has room for beside its envelope."""

Body = Callable[[], bytes]


def fill(head: str, item: Callable[[int], str], tail: str, size: int = USUAL_BODY) -> bytes:
    """As many different items as there is room for."""
    parts, left = list[str](), size - len(head) - len(tail) - 100
    while left > 0:
        parts.append(item(len(parts)))
        left -= len(parts[-1].encode()) + 1
    return (head + ",".join(parts[:-1]) + tail).encode()


def repeat(head: str, item: str, tail: str, size: int = USUAL_BODY) -> bytes:
    """The same item as often as there is room for."""
    count = (size - len(head) - len(tail) - 100) // (len(item) + 1)
    return (head + ",".join([item] * count) + tail).encode()


def record(n: int) -> str:
    """An item as others have."""
    return f'{{"id":{n},"name":"item {n}","price":{n}.25,"tags":["a","b"]}}'


def comparison(n: int) -> str:
    """A part of a condition that has to look at every item of an array."""
    return f'{{"type":"simple","jsonPath":"$.v[*]","operatorType":"EQUALS","value":-{n + 1}}}'


def a_condition(parts: int = 5999) -> str:
    """A condition of so many comparisons; the most that one may have."""
    return '{"type":"group","operator":"OR","conditions":[' + ",".join(map(comparison, range(parts))) + "]}"


def new_item(document: object) -> str:
    """An entity of a collection."""
    return json.dumps({"model": {"name": "held", "version": 1}, "payload": json.dumps(document)})


def xml(size: int = USUAL_BODY) -> bytes:
    """A document of many small elements."""
    return b"<a>" + b"<v>7</v>" * ((size - 10) // 8) + b"</a>"


def xml_attributes(count: int = 200_000) -> bytes:
    """A document of many elements with an attribute of their own."""
    elements = "".join([f'<v k{n}="7"/>' for n in range(count)])
    return f"<a>{elements}</a>".encode()


_DOCUMENTS: Final[dict[str, Callable[[int], bytes]]] = {
    "numbers": lambda size: repeat('{"v":[', "7", "]}", size),
    "escapes": lambda size: repeat('{"v":["', '\\"' * 1000, '"]}', size),
    "decimals": lambda size: repeat('{"v":[', "7.5", "]}", size),
    "empty-arrays": lambda size: repeat('{"v":[', "[]", "]}", size),
    "records": lambda size: fill('{"v":[', record, "]}", size),
    "names": lambda size: fill('{"v":[{', lambda n: f'"k{n}":1', "}]}", size),
    "different-names": lambda size: fill('{"v":[', lambda n: f'{{"k{n}":1}}', "]}", size),
    "deep": lambda size: repeat('{"v":[', "[" * 250 + "]" * 250, "]}", size),
    "repeated-at-the-end": lambda size: fill('{"v":[', record, '],"a":1,"a":2}', size),
    "cut-off": lambda size: fill('{"v":[', record, "", size),
    "cut-off-arrays": lambda size: repeat('{"v":[', "[]", "", size),
    "long-numbers": lambda size: repeat('{"v":[', "7" * 4000, "]}", size),
}
_QUICK: Final = {"numbers", "escapes", "cut-off-arrays"}
"""Quick enough to be as large as they may be in every run."""

DOCUMENTS: Final = tuple(_DOCUMENTS)
"""What is slow to read, check or write about a document, by name."""


@cache
def document(name: str, most: int = MAX_BODY) -> bytes:
    """The document of that name, with no more bytes than so many less room for what it is put into."""
    return _DOCUMENTS[name](min(most - _ROOM, MAX_BODY if name in _QUICK else USUAL_BODY))
