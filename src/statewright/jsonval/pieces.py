"""Large JSON texts, decoded and encoded in pieces, so that no single call holds the interpreter for long.

The decoder and the encoder are C functions, and other threads stand still until one returns: ten mebibytes take up to
half a second. Here a text is cut at commas outside of strings, every few kilobytes. A piece is completed to a text of
its own: before it the containers that were open at its start, after it the ends of those that are open at its end. What
it decodes to is then taken apart again, and added to the containers that are being built.

``[1,{"a":[2,3,4],"b":5},6]`` may be cut behind ``3``: the pieces are ``[1,{"a":[2,3`` + ``]}]``, and
``[{"…":[0,`` + ``4],"b":5},6]``, where the 0 and the name stand for what came before.
"""

import heapq
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue, item_path, member_path, weigh
from statewright.loop.turns import take_apart

PIECE_BYTES: Final = 64 * 1024
"""Of text: one to five milliseconds of work."""

_MAX_PASSES: Final = 8
"""Levels of nesting for which taking away all pairs is quicker than looking at each bracket."""

_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_BRACKETS: Final = re.compile(rb"([\]}]*)([\[{]*)")
_OTHER_BYTES: Final = bytes(set(range(256)) - set(b"[]{}"))
_ENDS: Final = {"[": b"]", "{": b"}"}
_OPENINGS: Final = {ord("]"): ord("["), ord("}"): ord("{")}
_NEEDING_VALUE: Final = (b"", b"[", b"{")
"""Ends of a part after which no comma may stand."""

ListNames: TypeAlias = Callable[[JsonObject], Iterator[str]]
"""The names of an object in some order."""

Container: TypeAlias = "list[JsonValue] | JsonObject"


class Piece(Struct, frozen=True):
    """A part of a text as a text of its own. ``open`` are the containers it goes on with, outermost first.

    ``head`` and ``tail`` were put around the part, which begins at byte ``start``; ``filler`` is the name that stands
    for members that came before. Head and tail are as compact as encoders write them.
    """

    text: bytes
    head: bytes
    tail: bytes
    start: int
    open: tuple[Container, ...]
    filler: str


class NotSplittable(Exception):
    """The text is malformed in a way that leaves no pieces."""


class RepeatedName(Exception):
    """An object names a member in two pieces, the second time at ``path``."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def decode_pieces(data: bytes, decode: Callable[[Piece], JsonValue], size: int = PIECE_BYTES) -> JsonValue:
    """The value of a text, of which ``decode`` decodes each piece. Raises what that raises, ``NotSplittable`` and
    ``RepeatedName``; what was decoded until then is taken apart.
    """
    decoded = list[JsonValue]()
    try:
        return _decode_pieces(data, decode, size, decoded)
    except BaseException:
        take_apart([root for root in decoded if isinstance(root, list | dict)])
        raise


def _decode_pieces(data: bytes, decode: Callable[[Piece], JsonValue], size: int, decoded: list[JsonValue]) -> JsonValue:
    """The root is added to ``decoded`` as soon as there is one."""
    filler = uuid.uuid4().hex
    root: JsonValue = None
    opened: tuple[Container, ...] = ()
    start = 0
    while True:
        end = _find_cut(data, start, size)
        part = data[start:end]
        head = _build_head(opened, filler)
        if end == len(data):
            value = decode(Piece(head + part, head, b"", start, opened, filler))
            return _add(opened, value, filler) if opened else value
        closed, openings = _count_brackets(data, start, end)
        if len(closed) > len(opened) or (len(closed) == len(opened) and not openings):
            decode(Piece(head + data[start : end + 1], head, b"", start, opened, filler))  # says where the defect is
            raise NotSplittable
        kept = opened[: len(opened) - len(closed)]
        tail = b"".join(map(_get_end, reversed((*map(_get_bracket, kept), *openings))))
        if part.rstrip()[-1:] in _NEEDING_VALUE:
            tail = b"," + tail  # so that the defect is in the piece
        value = decode(Piece(head + part + tail, head, tail, start, opened, filler))
        if opened:
            _add(opened, value, filler)
        else:
            root = value
            decoded.append(root)
        opened = _open(root, kept, len(openings))
        start = end + 1


def _add(opened: tuple[Container, ...], value: JsonValue, filler: str) -> JsonValue:
    """Add what a piece holds to the containers it goes on with; the outermost of them."""
    parts = _split(opened, value, filler)
    for depth, (container, part) in enumerate(zip(opened, parts, strict=True)):
        if isinstance(container, dict) and not container.keys().isdisjoint(part):
            repeated = next(str(name) for name in part if name in container)
            raise RepeatedName(member_path(format_path(opened[: depth + 1]), repeated))
    for container, part in zip(opened, parts, strict=True):
        if isinstance(container, list) and isinstance(part, list):
            container.extend(part)
        elif isinstance(container, dict) and isinstance(part, dict):
            container.update(part)
    return opened[0]


def format_path(containers: Sequence[Container]) -> str:
    """The path of the last of some containers, each of which is the last value of the one before."""
    path = ""
    for container in containers[:-1]:
        path = _extend_to_last(path, container)
    return path


def _extend_to_last(path: str, container: Container) -> str:
    if isinstance(container, list):
        return item_path(path, len(container) - 1)
    return member_path(path, next(reversed(container)))


def _split(opened: tuple[Container, ...], value: JsonValue, filler: str) -> list[Container]:
    """What a piece holds for each of the containers it goes on with."""
    parts = list[Container]()
    for container in opened:
        if isinstance(container, list) and isinstance(value, list):
            parts.append(value)
            value = value.pop(0)
        elif isinstance(container, dict) and isinstance(value, dict):
            parts.append(value)
            value = value.pop(filler)
        else:
            raise NotSplittable
    return parts


def _open(root: JsonValue, kept: tuple[Container, ...], count: int) -> tuple[Container, ...]:
    """The containers that stay open, and those that were opened last, each the last value of the one before."""
    opened = list(kept)
    for _ in range(count):
        if not opened:
            value = root
        else:
            around = opened[-1]
            value = around[-1] if isinstance(around, list) else next(reversed(around.values()))
        if not isinstance(value, list | dict):
            raise NotSplittable
        opened.append(value)
    return tuple(opened)


def _build_head(opened: tuple[Container, ...], filler: str) -> bytes:
    if not opened:
        return b""
    name = b'{"%b":' % filler.encode()
    outer = b"".join(b"[" if isinstance(container, list) else name for container in opened[:-1])
    return outer + (b"[0," if isinstance(opened[-1], list) else name + b"0,")


def _get_bracket(container: Container) -> str:
    return "[" if isinstance(container, list) else "{"


def _get_end(bracket: str) -> bytes:
    return _ENDS[bracket]


def _find_cut(data: bytes, start: int, size: int) -> int:
    """The position of a comma outside of strings, about ``size`` bytes behind ``start``, which is outside, too; the end
    of the text when there is none.
    """
    at, inside = start, 0
    for text in _mask_escapes(data, start, len(data), size):
        if at + len(text) >= len(data):
            break
        comma = text.rfind(b",")
        while comma >= 0 and (text.count(b'"', 0, comma) + inside) % 2:
            quote = text.rfind(b'"', 0, comma)
            comma = text.rfind(b",", 0, quote) if quote >= 0 else -1
        if comma >= 0:
            return at + comma
        at += len(text)
        inside ^= text.count(b'"') % 2
    return len(data)


def _mask_escapes(data: bytes, start: int, end: int, size: int) -> Iterator[bytes]:
    """A part of a text in windows, with other characters for all escapes."""
    while start < end:
        window = data[start : min(start + max(size, 2), end)]
        if window.endswith(b"\\") and (len(window) - len(window.rstrip(b"\\"))) % 2 and start + len(window) < end:
            window = window[:-1]
        yield _ESCAPE.sub(b"__", window)
        start += len(window)


def _count_brackets(data: bytes, start: int, end: int) -> tuple[bytes, str]:
    """The ends of containers that a part does not begin, and the beginnings of those that it does not end."""
    inside, found_brackets = 0, list[bytes]()
    for text in _mask_escapes(data, start, end, PIECE_BYTES):
        outside = b"".join(text.split(b'"')[inside::2])
        found_brackets.append(outside.translate(None, _OTHER_BYTES))
        inside ^= text.count(b'"') % 2
    brackets = b"".join(found_brackets)
    for _ in range(_MAX_PASSES):
        fewer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    else:
        brackets = _match_brackets(brackets)
    found = _BRACKETS.fullmatch(brackets)
    if found is None:
        raise NotSplittable
    return found[1], found[2].decode()


def _match_brackets(brackets: bytes) -> bytes:
    """What is left when all pairs are taken away, however deep."""
    left = bytearray()
    for bracket in brackets:
        if left and _OPENINGS.get(bracket) == left[-1]:
            left.pop()
        else:
            left.append(bracket)
    return bytes(left)


# Encoding.

_MAX_WEIGHT: Final = 10_000
"""Values that are encoded in one go; a long text counts as several."""

BYTES_PER_WEIGHT: Final = 16
"""About as many as a value is encoded to."""
_SLICE: Final = 2048
_MAX_SORTED_AT_ONCE: Final = 10_000


def encode_pieces(
    value: JsonValue, encode: Callable[[JsonValue], bytes], list_names: ListNames | None = None
) -> Iterator[bytes]:
    """The encoding of a value in pieces; ``encode`` encodes small values. ``list_names`` gives the names of an object
    in the order in which that does; None: by their bytes.
    """
    list_names = list_names or _sort_names
    if not isinstance(value, list | dict) or weigh(value, _MAX_WEIGHT) <= _MAX_WEIGHT:
        yield encode(value)
    else:
        yield from _encode_heavy(value, encode, list_names)


def _encode_heavy(value: JsonValue, encode: Callable[[JsonValue], bytes], list_names: ListNames) -> Iterator[bytes]:
    """What was weighed already: to do so again at each level would take longer than to encode it."""
    if isinstance(value, list):
        yield from _encode_array(value, encode, list_names)
    elif isinstance(value, dict):
        yield from _encode_object(value, encode, list_names)
    else:
        yield encode(value)


def _encode_array(
    items: list[JsonValue], encode: Callable[[JsonValue], bytes], list_names: ListNames
) -> Iterator[bytes]:
    separator = b"["
    start, size = 0, _SLICE
    while start < len(items):
        some = items[start : start + size]
        weight = weigh(some, _MAX_WEIGHT)
        if weight > _MAX_WEIGHT and len(some) > 1:
            size = len(some) // 2
            continue
        yield separator
        if weight > _MAX_WEIGHT:
            yield from _encode_heavy(some[0], encode, list_names)
        else:
            yield encode(some)[1:-1]
        separator = b","
        start += len(some)
        if 2 * weight <= _MAX_WEIGHT:  # else the next items, which are often alike, would be weighed twice
            size = min(2 * size, _SLICE)
    yield b"]"


def _encode_object(members: JsonObject, encode: Callable[[JsonValue], bytes], list_names: ListNames) -> Iterator[bytes]:
    separator = b"{"
    names = list_names(members)
    while some := list(islice(names, _SLICE)):
        for piece in _encode_members(members, some, encode, list_names):
            yield separator
            yield from piece
            separator = b","
    yield b"}"


def _encode_members(
    members: JsonObject, names: list[str], encode: Callable[[JsonValue], bytes], list_names: ListNames
) -> Iterator[Iterable[bytes]]:
    """The encodings of some members, many in one where they are light."""
    light: JsonObject = {name: members[name] for name in names}
    if weigh(light, _MAX_WEIGHT) <= _MAX_WEIGHT:
        yield (encode(light)[1:-1],)
        return
    light, total = {}, 0
    for name in names:
        weight = weigh({name: members[name]}, _MAX_WEIGHT)
        if light and total + weight > _MAX_WEIGHT:
            yield (encode(light)[1:-1],)
            light, total = {}, 0
        if weight > _MAX_WEIGHT:
            yield chain((encode(name) + b":",), _encode_heavy(members[name], encode, list_names))
        else:
            light[name], total = members[name], total + weight
    if light:
        yield (encode(light)[1:-1],)


def _sort_names(members: JsonObject) -> Iterator[str]:
    """In order of their code points, which is that of their bytes."""
    if len(members) <= _MAX_SORTED_AT_ONCE:
        return iter(sorted(members))
    names = iter(members)
    runs = iter(lambda: sorted(islice(names, _MAX_SORTED_AT_ONCE)), [])
    return heapq.merge(*runs)


def estimate_size(value: JsonValue) -> int:
    """About how many bytes a value is encoded to, for large ones at least how many: more where that takes longer than
    for others of as many bytes.
    """
    return weigh(value, _MAX_WEIGHT) * BYTES_PER_WEIGHT
