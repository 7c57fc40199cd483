"""Methods that templates may call, by the type of the value: those of Python that change nothing.

Members, items and slices of values: what ``a.b``, ``a[0]``, ``a[1:]`` and the attributes of filters name.

Functions that templates may call by name.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from statewright.evaluation.costs import (
    CHARS_PER_STEP,
    Cost,
    Entry,
    charge_nothing,
    compute_number,
    expand_number,
    scan_text,
    visit_items,
)
from statewright.evaluation.values import charge_split, charge_strip
from statewright.instants import to_rfc3339
from statewright.jsonval.values import is_whole, to_whole
from statewright.playbooks.jinja.charges import (
    charge_lines,
    charge_membership,
    charge_names,
    charge_pattern,
    charge_replacement,
    charge_split_backwards,
    charge_value,
    format_fields,
    join_text,
    replace_text,
)
from statewright.playbooks.jinja.values import (
    Complete,
    EvaluationFailed,
    Frame,
    Namespace,
    Undefined,
    compare_equal,
    describe,
)

MAX_PATH_CHARS: Final = 1024
"""Of the path that names a member in the arguments of filters, and of several paths with commas between them."""
_MAX_INDEX_DIGITS: Final = 10


def get_member(value: object, name: object) -> object:
    """A member of a mapping, an item of a list or text; undefined where there is none, and of undefined itself.

    Nothing but JSON has members: there are no attributes.
    """
    if isinstance(value, dict):
        if isinstance(name, str) and name in value:
            return value[name]
        if isinstance(value, Complete):
            raise EvaluationFailed(f"names {str(name)[:60]!r}, which is none of {', '.join(value) or 'none'}")
    elif isinstance(value, Namespace):
        if isinstance(name, str) and name in value.members:
            return value.members[name]
    elif isinstance(value, list | str):
        index = to_whole(name, _MAX_INDEX_DIGITS) if isinstance(name, Decimal) else name
        if is_whole(index) and -len(value) <= index < len(value):
            return value[index]
    return Undefined(_name_member(value, name))


def follow(value: object, path: object, frame: Frame) -> object:
    """The value at a path like ``a.b.0``, or at an index."""
    if isinstance(path, int):
        frame.spend(1 + expand_number(path))
        return get_member(value, path)
    path = read_path(path)
    frame.spend(1 + path.count(".") + len(path) // 64)
    for part in path.split("."):
        value = get_member(value, int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part)
    return value


def read_path(path: object) -> str:
    """The path. Raises :class:`EvaluationFailed` for what is none, or too long."""
    if not isinstance(path, str):
        raise EvaluationFailed(f"takes {describe(path)} for the name of a member")
    if len(path) > MAX_PATH_CHARS:
        raise EvaluationFailed(f"takes a path of more than {MAX_PATH_CHARS} characters")
    return path


def cost_name(_: object, name: object, *__: object) -> int:
    """The cost of looking a name up, which must be hashed, or of an index."""
    if isinstance(name, int | Decimal):
        return expand_number(name)
    return scan_text(len(name)) if isinstance(name, str) else 0


GET_ITEM: Final = Entry(lambda frame, value, name: get_member(value, name), cost_name)
"""``value[name]``."""


def _name_member(value: object, name: object) -> str:
    """What messages call the missing member."""
    of = value.name if isinstance(value, Undefined) else ""
    shown = str(name)[:60] if isinstance(name, str | int | Decimal) else "?"
    return f"{of}.{shown}"[-200:] if of else shown


def _take_slice(frame: Frame, value: object, *bounds: object) -> object:
    """The items between start and stop, in steps."""
    if isinstance(value, Undefined):
        return value
    if not isinstance(value, str | list):
        raise EvaluationFailed(f"takes a slice of {describe(value)}")
    limits = [_read_bound(bound) for bound in bounds]
    if limits[2] == 0:
        raise EvaluationFailed("takes a slice in steps of 0")
    if isinstance(value, str):
        frame.limit_text(len(value))
    else:
        frame.limit_items(len(value))
    return value[slice(*limits)]


def _read_bound(bound: object) -> int | None:
    if bound is None or isinstance(bound, Undefined):
        return None
    if isinstance(bound, int):
        return bound
    raise EvaluationFailed(f"takes a slice to {describe(bound)}")


TAKE_SLICE: Final = Entry(_take_slice, charge_value)
"""``value[start:stop:step]``."""


def _apply(method: Callable[..., object], cost: Cost = charge_value) -> Entry:
    """A method of text whose result is no longer than the text."""

    def call(frame: Frame, value: str, *arguments: object) -> object:
        if not all(argument is None or isinstance(argument, str) for argument in arguments):
            raise EvaluationFailed(f"calls {method.__name__} with an argument that is no text")
        frame.limit_text(len(value))
        result = method(value, *arguments)
        frame.spend_text(len(result) if isinstance(result, str) else 0)
        return result

    return Entry(call, cost)


def _split(method: Callable[..., list[str]], cost: Cost) -> Entry:
    def call(frame: Frame, value: str, separator: object = None, maxsplit: object = -1) -> object:
        if separator is not None and not isinstance(separator, str):
            raise EvaluationFailed(f"splits at {describe(separator)}")
        if not isinstance(maxsplit, int):
            raise EvaluationFailed(f"splits {describe(maxsplit)} times")
        frame.limit_text(len(value))
        if separator and maxsplit < 0:
            frame.limit_items(value.count(separator))
        parts = method(value, separator, maxsplit)
        frame.spend_items(len(parts))
        return parts

    return Entry(call, cost)


def _split_lines(frame: Frame, value: str) -> object:
    frame.limit_text(len(value))
    lines = value.splitlines()
    frame.spend_items(len(lines))
    return lines


def _find(frame: Frame, value: str, part: object, *bounds: int) -> object:
    if not isinstance(part, str):
        raise EvaluationFailed(f"looks for {describe(part)} in a text")
    frame.limit_text(len(value))
    return value.find(part, *bounds)


def _count(frame: Frame, value: "str | list[object]", part: object) -> object:
    if isinstance(value, str):
        if not isinstance(part, str):
            raise EvaluationFailed(f"counts {describe(part)} in a text")
        frame.limit_text(len(value))
        return value.count(part)
    frame.spend_items(len(value))
    return sum(compare_equal(item, part, frame) for item in value)


def _index(frame: Frame, value: list[object], item: object) -> object:
    frame.spend_items(len(value))
    for index, candidate in enumerate(value):
        if compare_equal(candidate, item, frame):
            return index
    raise EvaluationFailed("looks for the index of a value that is not in the list")


def _get(frame: Frame, value: dict[str, object], name: object, default: object = None) -> object:
    return value.get(name, default) if isinstance(name, str) else default


def _list_items(frame: Frame, value: dict[str, object]) -> object:
    frame.spend_items(2 * len(value))
    return [[name, member] for name, member in value.items()]


def _list_names(frame: Frame, value: dict[str, object]) -> object:
    frame.spend_items(len(value))
    return list(value)


def _list_members(frame: Frame, value: dict[str, object]) -> object:
    frame.spend_items(len(value))
    return list(value.values())


def _begins(frame: Frame, value: str, prefix: object) -> object:
    return _match(frame, value.startswith, prefix)


def _ends(frame: Frame, value: str, suffix: object) -> object:
    return _match(frame, value.endswith, suffix)


def _match(frame: Frame, method: Callable[[str], bool], part: object) -> bool:
    """One text, or any of several."""
    parts = part if isinstance(part, list) else [part]
    frame.spend_items(2 * len(parts))
    texts = [one for one in parts if isinstance(one, str)]
    if len(texts) != len(parts):
        raise EvaluationFailed(f"compares the ends of a text with {describe(part)}")
    frame.spend(sum(map(len, texts)) // CHARS_PER_STEP)
    return any(map(method, texts))


def _format(frame: Frame, value: str, /, *arguments: object, **named: object) -> object:
    return format_fields(frame, value, list(arguments), named, get_member)


_OF_TEXT: Final[dict[str, Entry]] = {
    "capitalize": _apply(str.capitalize),
    "count": Entry(_count, charge_membership),
    "endswith": Entry(_ends, charge_nothing),
    "find": Entry(_find, charge_membership),
    "format": Entry(_format, charge_pattern),
    "isalnum": _apply(str.isalnum),
    "isalpha": _apply(str.isalpha),
    "isdigit": _apply(str.isdigit),
    "islower": _apply(str.islower),
    "isspace": _apply(str.isspace),
    "isupper": _apply(str.isupper),
    "join": Entry(lambda frame, value, items: join_text(frame, items, value), charge_nothing),
    "lower": _apply(str.lower),
    "lstrip": _apply(str.lstrip, charge_strip),
    "removeprefix": _apply(str.removeprefix),
    "removesuffix": _apply(str.removesuffix),
    "replace": Entry(
        lambda frame, value, old, new, count=-1: replace_text(frame, value, old, new, count), charge_replacement
    ),
    "rsplit": _split(str.rsplit, charge_split_backwards),
    "rstrip": _apply(str.rstrip, charge_strip),
    "split": _split(str.split, charge_split),
    "splitlines": Entry(_split_lines, charge_lines),
    "startswith": Entry(_begins, charge_nothing),
    "strip": _apply(str.strip, charge_strip),
    "title": _apply(str.title),
    "upper": _apply(str.upper),
}
_OF_MAPPING: Final[dict[str, Entry]] = {
    "get": Entry(_get, cost_name),
    "items": Entry(_list_items, charge_nothing),
    "keys": Entry(_list_names, charge_nothing),
    "values": Entry(_list_members, charge_nothing),
}
_OF_LIST: Final[dict[str, Entry]] = {
    "count": Entry(_count, charge_nothing),
    "index": Entry(_index, charge_nothing),
}
METHODS: Final[dict[type, dict[str, Entry]]] = {str: _OF_TEXT, dict: _OF_MAPPING, list: _OF_LIST}
"""By the type of the value and name. Each takes the frame, the value and the arguments."""
_MUTATING: Final = frozenset(
    ("append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update")
)
NAMES: Final = frozenset((*_OF_TEXT, *_OF_MAPPING, *_OF_LIST))
"""The methods of all types."""


def describe_defect(name: str) -> str | None:
    """Why no value has a method of the name; ``None``: some have."""
    if name in NAMES:
        return None
    if name in _MUTATING:
        return f"calls {name}(), which would change a value; templates cannot"
    return f"calls {name}(), which is no method that templates may call ({', '.join(sorted(NAMES))})"


def call_method(frame: Frame, value: object, name: str, arguments: list[object], named: dict[str, object]) -> object:
    """Call a method of a value. Raises :class:`EvaluationFailed` if it has none of the name."""
    for kind, methods in METHODS.items():
        if isinstance(value, kind) and (method := methods.get(name)) is not None:
            return frame.call(method, value, *arguments, **named)
    raise EvaluationFailed(f"calls {name}() of {describe(value)}")


def _list_range(frame: Frame, start: object, stop: object = None, step: object = 1) -> object:
    if stop is None:
        start, stop = 0, start
    if not isinstance(start, int) or not isinstance(stop, int) or not isinstance(step, int) or step == 0:
        raise EvaluationFailed("makes a range of something that is no whole number, or in steps of 0")
    count = max(0, -((start - stop) // step))
    frame.limit_items(count)
    frame.spend(visit_items(count) + count * max(compute_number(start), compute_number(stop)))
    return list(range(start, stop, step))


def _build_mapping(frame: Frame, **members: object) -> object:
    return members


def _build_namespace(frame: Frame, **members: object) -> object:
    return Namespace(members)


def _tell_instant(frame: Frame) -> object:
    if frame.at is None:
        raise EvaluationFailed("calls now(), and was not told the instant: the service that sent the run is older")
    return to_rfc3339(frame.at)


def _charge_range(start: object, stop: object = 0, step: object = 1) -> int:
    """For the bounds; the function counts what is between them."""
    return compute_number(start) + compute_number(stop) + compute_number(step)


NOW: Final = "now"
FUNCTIONS: Final[dict[str, Entry]] = {
    "dict": Entry(_build_mapping, charge_names),
    "namespace": Entry(_build_namespace, charge_names),
    NOW: Entry(_tell_instant, charge_nothing),
    "range": Entry(_list_range, _charge_range),
}
"""By name. Each takes the frame and the arguments."""
