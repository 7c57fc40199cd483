"""Answers of the API as tests give them to views."""

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from statewright.console.calls import Reply, build_ops_call
from statewright.jsonval.values import JsonObject, JsonValue


def a_reply(value: JsonValue, status: int = 200) -> Reply:
    """An answer to some call."""
    return Reply(call=build_ops_call(), status=status, value=value)


def a_problem(status: int, code: str, detail: str = "") -> Reply:
    """A call that failed."""
    return a_reply({"status": status, "detail": detail, "properties": {"errorCode": code}}, status)


def a_document(record: type[Struct], **members: Any) -> JsonObject:
    """A record as it is on the wire, with these members and, where one is needed, one that says nothing. Members that
    are records themselves are filled up likewise.
    """
    hints = get_type_hints(record)
    known = {each.encode_name: _fill(hints[each.name], members.get(each.encode_name, NODEFAULT), each.required)
             for each in fields(record)}  # fmt: skip
    assert members.keys() <= known.keys(), members.keys() - known.keys()
    return {name: value for name, value in known.items() if value is not NODEFAULT}


def a_list(record: type[Struct], *items: Mapping[str, Any], **members: Any) -> Reply:
    """The answer that lists records."""
    return a_reply({"items": [a_document(record, **item) for item in items], **members})


def _fill(hint: Any, value: Any, required: bool = True) -> Any:
    """The value, records in it filled up; without one what says nothing."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    [kind, *_] = [each for each in options if each is not NoneType]
    if value is NODEFAULT:
        return NODEFAULT if not required else None if NoneType in options else _make_empty(kind)
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, Mapping):
        return a_document(kind, **value)
    if get_origin(kind) is tuple and isinstance(value, list):
        return [_fill(get_args(kind)[0], each) for each in value]
    return value


def _make_empty(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return _make_empty(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, Struct):
        return a_document(kind)
    if get_origin(kind) is not None and get_origin(kind) not in (tuple, dict, Sequence):
        return get_args(kind)[0]  # a word of a Literal
    empty: dict[Any, Any] = {str: "", int: 0, bool: False, tuple: [], Sequence: [], dict: {}}
    return empty.get(get_origin(kind) or kind)
