"""Large values of instances that stay as they are: stored once, and named in the documents of all later versions
(docs/adr/0029-large-values-stay-out-of-documents.md).

Each advance writes the whole document, and most change little of it. A value above ``MIN_APART_CHARS`` that was in the
version before is a part of the instance from then on, named after its digest as the large values of its log are, and
the document has null in its place. Which values they are is known by identity while the instance is remembered, so a
later advance neither looks at them nor encodes them.

Lists, texts and objects of many members are set apart; objects of few members stay, for the sake of those who search
for one, and their members are looked at.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias, cast

from msgspec import Raw, Struct

from statewright.jsonval.codec import encode_large
from statewright.jsonval.pieces import BYTES_PER_WEIGHT
from statewright.jsonval.values import JsonObject, JsonValue, weigh
from statewright.loop.background import MAX_INLINE_BYTES
from statewright.storage.processes.parts import LogValue

MIN_APART_CHARS: Final = MAX_INLINE_BYTES
"""What is smaller is written with each version."""
MAX_SEARCHED_MEMBERS: Final = 1_000
"""Objects of more members are values as a whole, and nothing is looked for in longer lists of tokens."""
MAX_APART: Final = 256
"""Values of one instance that are set apart; all others stay in the document."""
MAX_DEPTH: Final = 8
"""To which large values are looked for in what is written."""
ANY: Final = "*"
"""In a path: each member, or each item."""
DIGEST_BYTES: Final = 16
PART_PREFIX: Final = "log/"
"""Before the digest in the name of a part that is a value."""

Path: TypeAlias = tuple[str | int, ...]


class ApartValue(Struct, frozen=True):
    """A value that is stored."""

    value: JsonValue
    name: str
    chars: int


ApartValues: TypeAlias = Mapping[int, ApartValue]
"""By the identity of the value, which lives as long as its entry."""


EncodedValues: TypeAlias = Mapping[int, tuple[JsonValue, Raw]]
"""Large values and their texts, by the identity of the value."""


class Place(Struct, frozen=True):
    """Where in a document a value is that is stored apart."""

    at: Path
    name: str
    chars: int

    def to_document(self) -> JsonObject:
        """An entry of ``parts``. Nodes that know only arrays there put one back all the same."""
        return {"at": list(self.at), "names": [self.name], "chars": self.chars}


class Reduced(Struct, frozen=True, kw_only=True):
    """A document without its large values."""

    document: JsonObject
    apart: ApartValues = {}
    stored: tuple[LogValue, ...] = ()
    """Those that may not be stored yet."""


def name_text(text: bytes) -> LogValue:
    """A value, as its text, as a part, named after its digest: the same value is stored once."""
    return LogValue(name=f"{PART_PREFIX}{blake2b(text, digest_size=DIGEST_BYTES).hexdigest()}", value=Raw(text))


def leave_out_known(document: JsonObject, patterns: Sequence[Path], known: ApartValues) -> Reduced:
    """The document without the values that are known to be stored."""
    if not known:
        return Reduced(document=document)
    found = [(at, known[id(value)]) for at, value in _list_values(document, patterns, known) if id(value) in known]
    return _leave_out(document, found, ())


def encode_values(document: JsonObject, patterns: Sequence[Path]) -> EncodedValues:
    """The large values of a document as JSON texts, so that each is encoded once wherever it is written."""
    return {id(value): (value, Raw(encode_large(value))) for _, value in _list_large(document, patterns)}


def insert_encoded(value: JsonValue, encoded: EncodedValues, depth: int = MAX_DEPTH) -> JsonValue:
    """A value to be encoded, with the texts of those in it that were encoded before; the value itself stays."""
    found = encoded.get(id(value))
    if found is not None:
        return cast("JsonValue", found[1])  # encoders write it as it is
    if not depth or not isinstance(value, dict | list) or len(value) > MAX_SEARCHED_MEMBERS:
        return value
    if isinstance(value, dict):
        members = {name: insert_encoded(member, encoded, depth - 1) for name, member in value.items()}
        return members if any(members[name] is not value[name] for name in value) else value
    items = [insert_encoded(item, encoded, depth - 1) for item in value]
    return items if any(one is not other for one, other in zip(items, value, strict=True)) else value


def leave_out_lasting(
    reduced: Reduced, patterns: Sequence[Path], before: JsonObject, known: ApartValues, encoded: EncodedValues
) -> Reduced:
    """The document without the large values that were in the one before, too. ``encoded``: all that it has.

    Takes long: it looks at all large values.
    """
    earlier: dict[tuple[type, int], list[JsonValue]] = {}
    for _, value in _list_large(before, patterns):
        earlier.setdefault(_measure(value), []).append(value)
    room = MAX_APART - len(reduced.apart)
    found: list[tuple[Path, ApartValue]] = []
    stored: list[LogValue] = []
    for at, value in _list_large(reduced.document, patterns):
        same = next((one for one in earlier.get(_measure(value), ()) if one is value or one == value), None)
        if same is None or len(found) == room:
            continue
        there = known.get(id(same))
        if there is None:
            part = name_text(bytes(encoded[id(value)][1]))
            stored.append(part)
            there = ApartValue(value, part.name, len(memoryview(part.value)))
        found.append((at, ApartValue(value, there.name, there.chars)))
    if not found:
        return reduced
    both = _leave_out(reduced.document, found, tuple(stored))
    return Reduced(document=both.document, apart={**reduced.apart, **both.apart}, stored=both.stored)


def list_places(document: JsonObject) -> list[Place]:
    """The values that a stored document leaves out."""
    return [place for part in _get_parts(document) if (place := _read_place(part)) is not None]


def find_apart(document: JsonObject, places: Iterable[Place]) -> ApartValues:
    """The values of a whole document that are stored apart, at known places."""
    found: dict[int, ApartValue] = {}
    for place in places:
        value = get_at(document, place.at)
        if isinstance(value, list | dict | str):
            found[id(value)] = ApartValue(value, place.name, place.chars)
    return found


def put_back(document: JsonObject, at: Sequence[JsonValue], value: JsonValue) -> None:
    """Set a value in a document where it was left out. Raises ``ValueError`` for a place that is not there."""
    if not at or not _set(get_at(document, at[:-1]), at[-1], value):
        raise ValueError("stored instance is damaged: a value belongs nowhere")


def _get_parts(document: JsonObject) -> list[JsonValue]:
    parts = document.get("parts")
    return parts if isinstance(parts, list) else []


def _read_place(part: JsonValue) -> Place | None:
    match part:
        case {"at": [*at], "names": [str(name)], "chars": int(chars)}:
            return Place(tuple(key for key in at if isinstance(key, str | int)), name, chars)
        case _:
            return None


def get_at(document: JsonValue, at: Iterable[JsonValue]) -> JsonValue:
    """The value at a path; None: there is none."""
    place = document
    for key in at:
        if isinstance(place, dict) and isinstance(key, str):
            place = place.get(key)
        elif isinstance(place, list) and isinstance(key, int) and key < len(place):
            place = place[key]
        else:
            return None
    return place


def _leave_out(document: JsonObject, found: Sequence[tuple[Path, ApartValue]], stored: tuple[LogValue, ...]) -> Reduced:
    changed, copies = {**document}, dict[Path, JsonValue]()
    for at, _ in found:
        parent: JsonValue = changed
        for depth, key in enumerate(at[:-1], start=1):
            if (child := copies.get(at[:depth])) is None:
                child = copies[at[:depth]] = _copy(get_at(parent, (key,)))
                _set(parent, key, child)
            parent = child
        _set(parent, at[-1], None)
    entries: list[JsonValue] = [Place(at, one.name, one.chars).to_document() for at, one in found]
    if entries:
        changed["parts"] = [*_get_parts(document), *entries]
    return Reduced(document=changed, apart={id(one.value): one for _, one in found}, stored=stored)


def _copy(value: JsonValue) -> JsonValue:
    return {**value} if isinstance(value, dict) else [*value] if isinstance(value, list) else value


def _set(parent: JsonValue, key: JsonValue, value: JsonValue) -> bool:
    """Set a member or an item; whether there is a place for it."""
    match parent, key:
        case dict() as members, str(name):
            members[name] = value
        case list() as items, int(place) if place < len(items):
            items[place] = value
        case _:
            return False
    return True


def _list_values(
    document: JsonObject, patterns: Sequence[Path], known: ApartValues
) -> Iterator[tuple[Path, JsonValue]]:
    """The values at the patterns, and the members of objects of few members among them."""
    for pattern in patterns:
        for at, value in _match(document, pattern, ()):
            yield from _list_members(at, value, known)


def _list_members(at: Path, value: JsonValue, known: ApartValues) -> Iterator[tuple[Path, JsonValue]]:
    if isinstance(value, dict) and id(value) not in known and len(value) <= MAX_SEARCHED_MEMBERS:
        for name, member in value.items():
            if isinstance(member, dict | list | str):
                yield from _list_members((*at, name), member, known)
    else:
        yield at, value


def _list_large(document: JsonObject, patterns: Sequence[Path]) -> Iterator[tuple[Path, JsonValue]]:
    for pattern in patterns:
        for at, value in _match(document, pattern, ()):
            yield from _list_large_members(at, value)


def _is_large(value: JsonValue) -> bool:
    """Whether it has about ``MIN_APART_CHARS`` as JSON; no more of it is looked at."""
    most = MIN_APART_CHARS // BYTES_PER_WEIGHT
    return weigh(value, most) > most


def _list_large_members(at: Path, value: JsonValue) -> Iterator[tuple[Path, JsonValue]]:
    if not isinstance(value, dict | list | str) or not _is_large(value):
        return
    if isinstance(value, dict) and len(value) <= MAX_SEARCHED_MEMBERS:
        for name, member in value.items():
            yield from _list_large_members((*at, name), member)
    else:
        yield at, value


def _match(value: JsonValue, pattern: Path, at: Path) -> Iterator[tuple[Path, JsonValue]]:
    if not pattern:
        yield at, value
        return
    key, rest = pattern[0], pattern[1:]
    if key != ANY:
        if isinstance(value, dict) and isinstance(key, str) and key in value:
            yield from _match(value[key], rest, (*at, key))
    elif isinstance(value, dict) and len(value) <= MAX_SEARCHED_MEMBERS:
        for name, member in value.items():
            yield from _match(member, rest, (*at, name))
    elif isinstance(value, list) and len(value) <= MAX_SEARCHED_MEMBERS:
        for place, item in enumerate(value):
            yield from _match(item, rest, (*at, place))


def _measure(value: JsonValue) -> tuple[type, int]:
    return type(value), len(value) if isinstance(value, list | dict | str) else 0
