"""Conditions as people build them: JSON text to a tree of groups and leaves, and back without loss.

The tree is what the condition builder of the console shows. It knows groups and the leaves ``simple`` and ``lifecycle``
(docs/reference/conditions.md#form). Anything else — arrays, functions, a leaf with a member or an operator that is not
known here — is a :class:`Verbatim`: its text is kept byte for byte. Operands are kept as they were written, so ``1.10``
stays ``1.10``, and a text that looks like a number stays a text.

Two laws hold, and tests try them on random conditions: reading what was written gives the same tree, and a form made of
a tree gives the same tree again.

The condition builder as its template sees it: a tree of nodes with what each may be changed to. Pure.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Final, Literal, TypeAlias, assert_never
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from statewright.jsonval.codec import MalformedJson, compact_json, decode, encode

MAX_ENCODED_CHARS: Final = 6_000
"""Characters that a condition may have in a link, percent-encoded."""
MAX_DEPTH: Final = 50
"""How deep leaves may be, the root being at 0 (docs/reference/conditions.md#form)."""

COMPARISONS: Final[Mapping[str, str]] = {
    "EQUALS": "is",
    "NOT_EQUAL": "is not",
    "GREATER_THAN": "is greater than",
    "GREATER_OR_EQUAL": "is at least",
    "LESS_THAN": "is less than",
    "LESS_OR_EQUAL": "is at most",
}
RANGES: Final[Mapping[str, str]] = {"BETWEEN": "is strictly between", "BETWEEN_INCLUSIVE": "is between"}
PRESENCE: Final[Mapping[str, str]] = {"IS_NULL": "has no value", "NOT_NULL": "has a value"}
TEXTS: Final[Mapping[str, str]] = {
    "CONTAINS": "contains",
    "STARTS_WITH": "starts with",
    "ENDS_WITH": "ends with",
    "NOT_CONTAINS": "does not contain",
    "NOT_STARTS_WITH": "does not start with",
    "NOT_ENDS_WITH": "does not end with",
    "IEQUALS": "is, in any case,",
    "INOT_EQUAL": "is not, in any case,",
    "ICONTAINS": "contains, in any case,",
    "INOT_CONTAINS": "does not contain, in any case,",
    "ISTARTS_WITH": "starts, in any case, with",
    "INOT_STARTS_WITH": "does not start, in any case, with",
    "IENDS_WITH": "ends, in any case, with",
    "INOT_ENDS_WITH": "does not end, in any case, with",
    "LIKE": "is like",
    "MATCHES_PATTERN": "matches",
}
_WORDS: Final[Mapping[str, str]] = {**COMPARISONS, **RANGES, **TEXTS, **PRESENCE}
"""Operators with what they are called in a sentence."""
OPERATORS: Final = tuple(_WORDS)

LIFECYCLE_TIMES: Final = ("creationDate", "lastUpdateTime")
LIFECYCLE_FIELDS: Final = ("state", "id", *LIFECYCLE_TIMES, "transitionForLatestSave", "transactionId")

NUMBERS: Final = frozenset(
    ("INTEGER", "LONG", "BIG_INTEGER", "UNBOUND_INTEGER", "DOUBLE", "BIG_DECIMAL", "UNBOUND_DECIMAL")
)
_TEMPORALS: Final = frozenset(("LOCAL_DATE", "LOCAL_DATE_TIME", "LOCAL_TIME", "ZONED_DATE_TIME", "YEAR", "YEAR_MONTH"))


class MalformedQuery(ValueError):
    """A text that is no condition in JSON, or a form that is none; the message says where."""


class Simple(Struct, frozen=True, kw_only=True):
    """A leaf on a field of the document. ``value`` is JSON as it was written; ``None``: there is none."""

    path: str
    operator: str
    value: str | None = None


class Lifecycle(Struct, frozen=True, kw_only=True):
    """A leaf on a metadata field; ``value`` as in :class:`Simple`."""

    field: str
    operator: str
    value: str | None = None


class Verbatim(Struct, frozen=True, kw_only=True):
    """JSON that the builder does not take apart, without insignificant white space."""

    text: str


class Group(Struct, frozen=True, kw_only=True):
    """Conditions of which all, or one, must hold."""

    operator: Literal["AND", "OR"] = "AND"
    conditions: "tuple[Condition, ...]" = ()


Condition: TypeAlias = Simple | Lifecycle | Verbatim | Group
_Change: TypeAlias = Callable[[Condition], Condition]

EVERYTHING: Final = Group()
"""What the builder shows when there is no condition."""


# JSON text


class _Wire(Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """A part of a condition of which the builder knows every member."""


class _WireGroup(_Wire, frozen=True, kw_only=True, tag="group"):
    operator: str
    conditions: list[Raw]


class _WireLeaf(_Wire, frozen=True, kw_only=True):
    operator_type: str | UnsetType = UNSET
    operator: str | UnsetType = UNSET
    operation: str | UnsetType = UNSET
    value: Raw = Raw()
    """Empty: there is none."""

    def read_operator(self) -> str | None:
        """The operator, if it is known and named once."""
        named = [each for each in (self.operator_type, self.operator, self.operation) if each is not UNSET]
        return named[0] if len(named) == 1 and named[0] in OPERATORS else None


class _WireSimple(_WireLeaf, frozen=True, kw_only=True, tag="simple"):
    json_path: str


class _WireLifecycle(_WireLeaf, frozen=True, kw_only=True, tag="lifecycle"):
    field: str


_WIRE: Final = msgspec.json.Decoder(_WireGroup | _WireSimple | _WireLifecycle)


def read_condition(text: str) -> Condition:
    """The tree of a condition. Raises :class:`MalformedQuery` for what is no JSON, or groups nested too deep."""
    try:
        decode(text)
        compact = b"".join(compact_json(memoryview(text.encode())))
    except MalformedJson as malformed:
        raise MalformedQuery(f"this is no JSON: {malformed}") from malformed
    return _read(compact, 0)


def _read(text: bytes, depth: int) -> Condition:
    if depth > MAX_DEPTH:
        raise MalformedQuery(f"groups are nested more than {MAX_DEPTH} deep")
    try:
        told = _WIRE.decode(text)
    except msgspec.DecodeError:
        return Verbatim(text=text.decode())
    return _read_part(told, depth) or Verbatim(text=text.decode())


def _read_part(told: _WireGroup | _WireSimple | _WireLifecycle, depth: int) -> Condition | None:
    """The part of the tree; None where the builder does not know one of its words."""
    if isinstance(told, _WireGroup):
        word = told.operator.upper()
        if word not in ("AND", "OR"):
            return None
        parts = tuple(_read(bytes(part), depth + 1) for part in told.conditions)
        return Group(operator="AND" if word == "AND" else "OR", conditions=parts)
    operator, value = told.read_operator(), bytes(told.value).decode() or None
    if operator is None:
        return None
    if isinstance(told, _WireSimple):
        return Simple(path=told.json_path, operator=operator, value=value) if _fits_input(told.json_path) else None
    return Lifecycle(field=told.field, operator=operator, value=value) if told.field in LIFECYCLE_FIELDS else None


def _fits_input(text: str) -> bool:
    """Whether a line of a form gives the text back as it is."""
    return not any(character < " " for character in text)


def write_condition(condition: Condition) -> str:
    """Compact JSON of a condition."""
    match condition:
        case Verbatim(text=text):
            return text
        case Group(operator=operator, conditions=conditions):
            inner = ",".join(write_condition(part) for part in conditions)
            return f'{{"type":"group","operator":"{operator}","conditions":[{inner}]}}'
        case Simple(path=path, operator=operator, value=value):
            return f'{{"type":"simple","jsonPath":{_quote(path)},"operatorType":"{operator}"{_write_operand(value)}}}'
        case Lifecycle(field=field, operator=operator, value=value):
            return f'{{"type":"lifecycle","field":{_quote(field)},"operatorType":"{operator}"{_write_operand(value)}}}'


def _quote(text: str) -> str:
    return encode(text).decode()


def _write_operand(value: str | None) -> str:
    return "" if value is None else f',"value":{value}'


def fits_link(condition: Condition) -> bool:
    """Whether a link may carry the condition; a longer one is a matter for a search job."""
    return len(quote(write_condition(condition), safe="")) <= MAX_ENCODED_CHARS


# Operands as they are typed


def show_operand(value: str | None) -> str:
    """What the line of an operand says: texts without their quotes where nothing is lost by that."""
    if value is None:
        return ""
    if value.startswith('"'):
        text = str(decode(value))
        if text and text == text.strip() and _fits_input(text) and _quote(text) == value and not _is_json(text):
            return text
    return value


def read_typed_operand(typed: str, operator: str) -> str | None:
    """The JSON of what was typed: a number, ``true``, ``null``, an array or a text in quotes as it stands, all else as
    a text. Nothing typed is no operand for an operator that takes none, else the empty text.
    """
    typed = typed.strip()
    if not typed:
        return None if operator in PRESENCE else '""'
    if _is_json(typed):
        return b"".join(compact_json(memoryview(typed.encode()))).decode()
    return _quote(typed)


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except MalformedJson:
        return False
    return True


# Forms


def write_fields(condition: Condition, place: str = "c") -> dict[str, str]:
    """The condition as fields of a form: ``c.kind``, ``c.0.path`` and so on, a number for each part of a group."""
    match condition:
        case Group(operator=operator, conditions=conditions):
            fields = {f"{place}.kind": "group", f"{place}.operator": operator}
            for number, part in enumerate(conditions):
                fields |= write_fields(part, f"{place}.{number}")
            return fields
        case Simple(path=path):
            fields = {f"{place}.kind": "simple", f"{place}.path": path}
        case Lifecycle(field=field):
            fields = {f"{place}.kind": "lifecycle", f"{place}.field": field}
        case Verbatim(text=text):
            return {f"{place}.kind": "json", f"{place}.json": text}
    fields[f"{place}.operator"] = condition.operator
    if condition.value is not None:
        fields[f"{place}.value"] = show_operand(condition.value)
    return fields


def read_fields(fields: Mapping[str, str], place: str = "c", depth: int = 0) -> Condition:
    """The condition that a form describes. Raises :class:`MalformedQuery`, naming the field."""
    if depth > MAX_DEPTH:
        raise MalformedQuery(f"groups are nested more than {MAX_DEPTH} deep")
    kind = fields.get(f"{place}.kind", "")
    if kind == "group":
        operator = _choose(fields, f"{place}.operator", ("AND", "OR"))
        numbers = _list_numbers(fields, place)
        parts = tuple(read_fields(fields, f"{place}.{number}", depth + 1) for number in numbers)
        return Group(operator="AND" if operator == "AND" else "OR", conditions=parts)
    if kind == "json":
        return _read_typed_json(fields, place)
    if kind not in ("simple", "lifecycle"):
        raise MalformedQuery(f"{place}.kind: {kind!r} is no kind of condition")
    operator = _choose(fields, f"{place}.operator", OPERATORS)
    typed = fields.get(f"{place}.value")
    value = None if typed is None else read_typed_operand(typed, operator)
    if kind == "lifecycle":
        return Lifecycle(field=_choose(fields, f"{place}.field", LIFECYCLE_FIELDS), operator=operator, value=value)
    return Simple(path=fields.get(f"{place}.path", ""), operator=operator, value=value)


def _read_typed_json(fields: Mapping[str, str], place: str) -> Condition:
    try:
        return read_condition(fields.get(f"{place}.json", ""))
    except MalformedQuery as malformed:
        raise MalformedQuery(f"{place}.json: {malformed}") from malformed


def _choose(fields: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    chosen = fields.get(name, "")
    if chosen not in choices:
        raise MalformedQuery(f"{name}: {chosen!r} is none of {', '.join(choices)}")
    return chosen


def _list_numbers(fields: Mapping[str, str], place: str) -> list[int]:
    """The parts of a group that a form has, in order; numbers may be missing."""
    start = f"{place}."
    heads = {name[len(start) :].partition(".")[0] for name in fields if name.startswith(start)}
    return sorted(int(head) for head in heads if head.isascii() and head.isdigit() and len(head) < 5)


# Editing


def add_part(condition: Condition, place: str, part: Condition) -> Condition:
    """The condition with a part more at the end of the group at ``place``; a leaf there becomes a group of both.

    Raises :class:`MalformedQuery` when there is no such place.
    """
    return _change(condition, _read_place(place), lambda found: _append(found, part))


def remove_part(condition: Condition, place: str) -> Condition:
    """The condition without what is at ``place``; without the root everything is meant."""
    steps = _read_place(place)
    if not steps:
        return EVERYTHING
    return _change(condition, steps[:-1], lambda found: _drop(found, steps[-1]))


def _read_place(place: str) -> tuple[int, ...]:
    root, *steps = place.split(".")
    if root != "c" or not all(step.isascii() and step.isdigit() and len(step) < 5 for step in steps):
        raise MalformedQuery(f"{place!r} is no place in a condition")
    return tuple(map(int, steps))


def _change(condition: Condition, steps: tuple[int, ...], change: _Change) -> Condition:
    if not steps:
        return change(condition)
    first, *rest = steps
    if not isinstance(condition, Group) or first >= len(condition.conditions):
        raise MalformedQuery("there is no such place in the condition")
    parts = list(condition.conditions)
    parts[first] = _change(parts[first], tuple(rest), change)
    return replace(condition, conditions=tuple(parts))


def _append(found: Condition, part: Condition) -> Condition:
    if isinstance(found, Group):
        return replace(found, conditions=(*found.conditions, part))
    return Group(conditions=(found, part))


def _drop(found: Condition, number: int) -> Condition:
    if not isinstance(found, Group) or number >= len(found.conditions):
        raise MalformedQuery("there is no such place in the condition")
    parts = found.conditions
    return replace(found, conditions=(*parts[:number], *parts[number + 1 :]))


# What a builder offers, and words


def offer_operators(types: Iterable[str]) -> tuple[str, ...]:
    """The operators that can match values of the declared types (docs/reference/models.md#data-types); none declared
    means an object or an array, of which only presence can be asked.
    """
    declared = set(types)
    offered: set[str] = set(PRESENCE)
    if declared:
        offered |= {"EQUALS", "NOT_EQUAL"}
    if declared & (NUMBERS | _TEMPORALS):
        offered |= {*COMPARISONS, *RANGES}
    if declared - NUMBERS - {"BOOLEAN", "NULL"}:
        offered |= {*COMPARISONS, *RANGES, *TEXTS}
    return tuple(operator for operator in OPERATORS if operator in offered)


MAX_UNKNOWN: Final = 10
"""Unknown paths of a condition that are shown."""
MAX_GUESSED: Final = 200
"""Paths of a model among which the nearest one is looked for."""
MAX_GUESSED_CHARS: Final = 64


def list_unknown_paths(condition: Condition, known: Collection[str]) -> tuple[tuple[str, str | None], ...]:
    """The first paths that are not known, each with the known one that may be meant."""
    declared = frozenset(known)
    unknown = (path for path in list_paths(condition) if path not in declared)
    return tuple((path, find_nearest_path(path, known)) for path in islice(unknown, MAX_UNKNOWN))


def find_nearest_path(path: str, known: Collection[str]) -> str | None:
    """The known path that is most like one that is not known; ``None`` if none is alike, and where looking for it would
    take time: it grows with the number of paths, and with the square of their lengths.
    """
    if len(known) > MAX_GUESSED or len(path) > MAX_GUESSED_CHARS:
        return None
    names = [name for name in known if len(name) <= MAX_GUESSED_CHARS]
    found = difflib.get_close_matches(path, names, n=1, cutoff=0.6)
    return found[0] if found else None


def list_paths(condition: Condition) -> list[str]:
    """The data paths of the leaves, each once, in order."""
    if isinstance(condition, Group):
        return list(dict.fromkeys(path for part in condition.conditions for path in list_paths(part)))
    return [condition.path] if isinstance(condition, Simple) else []


def describe_condition(condition: Condition) -> str:
    """The condition in words, for the line above a list."""
    match condition:
        case Verbatim(text=text):
            return text
        case Group(conditions=()):
            return "everything" if condition.operator == "AND" else "nothing"
        case Group(operator=operator, conditions=conditions):
            word = " and " if operator == "AND" else " or "
            return word.join(_describe_part(part) for part in conditions)
        case Simple(path=name) | Lifecycle(field=name):
            words = _WORDS[condition.operator]
            operand = "" if condition.operator in PRESENCE else f" {show_operand(condition.value) or 'null'}"
            return f"{name} {words}{operand}"


def _describe_part(part: Condition) -> str:
    words = describe_condition(part)
    return f"({words})" if isinstance(part, Group) and len(part.conditions) > 1 else words


_TIME_OPERATORS: Final = tuple(operator for operator in OPERATORS if operator not in TEXTS)


class BuilderNode(Struct, frozen=True, kw_only=True):
    """A part of a condition. ``place`` names it in the form."""

    place: str
    kind: str = ""
    operator: str = ""
    operators: tuple[str, ...] = ()
    subject: str = ""
    """Path or metadata field."""
    subjects: tuple[str, ...] = ()
    operand: str = ""
    takes_operand: bool = True
    text: str = ""
    children: "tuple[BuilderNode, ...]" = ()
    is_unknown: bool = False
    """Whether the path is none of the model."""


def build_nodes(condition: Condition, types: dict[str, tuple[str, ...]], place: str = "c") -> BuilderNode:
    """The tree of a condition. ``types`` are those of the declared paths."""
    match condition:
        case Group():
            parts = enumerate(condition.conditions)
            children = tuple(build_nodes(part, types, f"{place}.{number}") for number, part in parts)
            return BuilderNode(
                place=place, kind="group", operator=condition.operator, operators=("AND", "OR"), children=children
            )
        case Simple():
            declared = types.get(condition.path)
            offered = offer_operators(declared) if declared else OPERATORS
            leaf = _build_leaf(place, condition, condition.path, offered)
            return replace(leaf, kind="simple", is_unknown=bool(condition.path) and declared is None)
        case Lifecycle():
            offered = _TIME_OPERATORS if condition.field in LIFECYCLE_TIMES else OPERATORS
            leaf = _build_leaf(place, condition, condition.field, offered)
            return replace(leaf, kind="lifecycle", subjects=LIFECYCLE_FIELDS)
        case Verbatim():
            return BuilderNode(place=place, kind="json", text=condition.text)
        case _:
            assert_never(condition)


def _build_leaf(place: str, leaf: Simple | Lifecycle, subject: str, offered: tuple[str, ...]) -> BuilderNode:
    return BuilderNode(
        place=place,
        operator=leaf.operator,
        operators=offered if leaf.operator in offered else (*offered, leaf.operator),
        subject=subject,
        operand=show_operand(leaf.value),
        takes_operand=leaf.value is not None or leaf.operator in PRESENCE,  # what came without one keeps none
    )
