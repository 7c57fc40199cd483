"""Methods that templates may call, by the type of the value: those of Python that change nothing."""

from collections.abc import Callable
from typing import Final

from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.texts import join_text, replace_text
from statewright.playbooks.jinja.values import compare_equal, describe


def _apply(method: Callable[..., object]) -> Callable[..., object]:
    """A method of text whose result is no longer than the text."""

    def call(frame: Frame, value: str, *arguments: object) -> object:
        if not all(argument is None or isinstance(argument, str) for argument in arguments):
            raise EvaluationFailed(f"calls {method.__name__} with an argument that is no text")
        frame.spend_text(len(value))
        result = method(value, *arguments)
        frame.spend_text(len(result) if isinstance(result, str) else 0)
        return result

    return call


def _split(method: Callable[..., list[str]]) -> Callable[..., object]:
    def call(frame: Frame, value: str, separator: object = None, maxsplit: object = -1) -> object:
        if separator is not None and not isinstance(separator, str):
            raise EvaluationFailed(f"splits at {describe(separator)}")
        if not isinstance(maxsplit, int):
            raise EvaluationFailed(f"splits {describe(maxsplit)} times")
        frame.spend_search(value, separator or " ")
        frame.spend(len(value) // 8)
        parts = method(value, separator, maxsplit)
        frame.spend_items(len(parts))
        return parts

    return call


def _split_lines(frame: Frame, value: str) -> object:
    frame.spend_text(len(value))
    frame.spend_items(value.count("\n") + value.count("\r"))
    return value.splitlines()


def _find(frame: Frame, value: str, part: object, *bounds: int) -> object:
    if not isinstance(part, str):
        raise EvaluationFailed(f"looks for {describe(part)} in a text")
    frame.spend_search(value, part)
    return value.find(part, *bounds)


def _count(frame: Frame, value: "str | list[object]", part: object) -> object:
    if isinstance(value, str):
        if not isinstance(part, str):
            raise EvaluationFailed(f"counts {describe(part)} in a text")
        frame.spend_search(value, part)
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
    return _match(value.startswith, prefix)


def _ends(frame: Frame, value: str, suffix: object) -> object:
    return _match(value.endswith, suffix)


def _match(method: Callable[[str], bool], part: object) -> bool:
    """One text, or any of several."""
    parts = part if isinstance(part, list) else [part]
    texts = [one for one in parts if isinstance(one, str)]
    if len(texts) != len(parts):
        raise EvaluationFailed(f"compares the ends of a text with {describe(part)}")
    return any(map(method, texts))


_OF_TEXT: Final[dict[str, Callable[..., object]]] = {
    "capitalize": _apply(str.capitalize),
    "count": _count,
    "endswith": _ends,
    "find": _find,
    "isalnum": _apply(str.isalnum),
    "isalpha": _apply(str.isalpha),
    "isdigit": _apply(str.isdigit),
    "islower": _apply(str.islower),
    "isspace": _apply(str.isspace),
    "isupper": _apply(str.isupper),
    "join": lambda frame, value, items: join_text(frame, items, value),
    "lower": _apply(str.lower),
    "lstrip": _apply(str.lstrip),
    "removeprefix": _apply(str.removeprefix),
    "removesuffix": _apply(str.removesuffix),
    "replace": lambda frame, value, old, new, count=-1: replace_text(frame, value, old, new, count),
    "rsplit": _split(str.rsplit),
    "rstrip": _apply(str.rstrip),
    "split": _split(str.split),
    "splitlines": _split_lines,
    "startswith": _begins,
    "strip": _apply(str.strip),
    "title": _apply(str.title),
    "upper": _apply(str.upper),
}
_OF_MAPPING: Final[dict[str, Callable[..., object]]] = {
    "get": _get,
    "items": _list_items,
    "keys": _list_names,
    "values": _list_members,
}
_OF_LIST: Final[dict[str, Callable[..., object]]] = {
    "count": _count,
    "index": _index,
}
_METHODS: Final[dict[type, dict[str, Callable[..., object]]]] = {str: _OF_TEXT, dict: _OF_MAPPING, list: _OF_LIST}
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
    for kind, methods in _METHODS.items():
        if isinstance(value, kind) and (method := methods.get(name)) is not None:
            return method(frame, value, *arguments, **named)
    raise EvaluationFailed(f"calls {name}() of {describe(value)}")
