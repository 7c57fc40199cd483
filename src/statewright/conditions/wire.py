"""Conditions from and to JSON (spec/search.md §2)."""

from collections.abc import Callable
from typing import Final, assert_never

from statewright.conditions.body import Body
from statewright.conditions.syntax import (
    DEPTH_LIMIT,
    Array,
    Condition,
    Function,
    Group,
    Lifecycle,
    MalformedCondition,
    Simple,
)
from statewright.conditions.tags import required_tags
from statewright.jsonval.values import JsonObject, JsonValue

DEFAULT_TIMEOUT_MS: Final = 30_000
"""How long a member may take when ``responseTimeoutMs`` is absent or not positive (spec/workflows.md §2.5)."""


def parse(value: JsonValue) -> Condition:
    """The condition that the JSON value describes.

    Raises :class:`MalformedCondition` for anything that is no condition: no object, no known ``type``, a member of the
    wrong JSON kind, nesting over 50. Unknown members are ignored; unknown operators and paths are no matter of parsing.
    """
    return _parse(value, 0)


def serialise(condition: Condition) -> JsonValue:
    """The canonical JSON of the condition: primary member names only (spec/search.md §2.7). Inverse of parsing."""
    match condition:
        case Simple(path=path, operator=operator, value=value):
            return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}
        case Lifecycle(field=field, operator=operator, value=value):
            return {"type": "lifecycle", "field": field, "operatorType": operator, "value": value}
        case Group(operator=operator, conditions=conditions):
            return {"type": "group", "operator": operator, "conditions": [serialise(child) for child in conditions]}
        case Array(path=path, values=values):
            return {"type": "array", "jsonPath": path, "values": list(values)}
        case Function(raw=raw):
            return raw
        case _:
            assert_never(condition)


def _parse(value: JsonValue, depth: int) -> Condition:
    if depth > DEPTH_LIMIT:
        raise MalformedCondition(f"condition is nested deeper than {DEPTH_LIMIT} levels")
    if isinstance(value, dict) and (plain := _plain(value, depth)) is not None:
        return plain
    body = Body(value, "condition")
    kind = body.text("type")
    if kind == "group":
        return _group(body, depth)
    read = _LEAVES.get(kind)
    if read is None:
        raise MalformedCondition(f'unknown condition type "{kind}"' if kind else "condition has no type")
    return read(body)


def _plain(raw: JsonObject, depth: int) -> Condition | None:
    """A comparison or group whose members have their primary names, as nearly all have: what the long way makes of it.

    None for all else.
    """
    kind = raw.get("type")
    if kind == "simple" and "value" in raw:
        path, operator = raw.get("jsonPath"), raw.get("operatorType")
        if isinstance(path, str) and isinstance(operator, str) and operator:
            return Simple(path=path, operator=operator, value=raw["value"])
    elif kind == "group":
        operator, children = raw.get("operator"), raw.get("conditions")
        if operator in ("AND", "OR") and isinstance(operator, str) and isinstance(children, list):
            return Group(operator=operator, conditions=tuple([_parse(child, depth + 1) for child in children]))
    return None


def _group(body: Body, depth: int) -> Group:
    operator = body.text("operator")
    return Group(
        operator=operator.upper() if operator.upper() in ("AND", "OR") else operator,
        conditions=tuple(_parse(child, depth + 1) for child in body.array("conditions")),
    )


def _simple(body: Body) -> Simple:
    return Simple(path=body.text("jsonPath"), operator=_operator(body), value=body.value("value"))


def _lifecycle(body: Body) -> Lifecycle:
    return Lifecycle(field=body.text("field"), operator=_operator(body), value=body.value("value"))


def _array(body: Body) -> Array:
    # The published schema, and an editor in use, write the positions as `value` (spec/search.md §17, Q5).
    name = "values" if body.value("values") is not None else "value"
    return Array(path=body.text("jsonPath"), values=body.array(name))


def _function(body: Body) -> Function:
    function = body.object("function")
    config = function.object("config")
    tags_text = config.text("calculationNodesTags")
    timeout_ms = config.whole("responseTimeoutMs")
    return Function(
        name=function.text("name"),
        tags=required_tags(tags_text),
        tags_text=tags_text,
        attach_entity=config.flag("attachEntity", default=True),
        timeout_ms=timeout_ms if timeout_ms > 0 else DEFAULT_TIMEOUT_MS,
        context=config.text("context"),
        raw=body.raw,
    )


_LEAVES: Final[dict[str, Callable[[Body], Condition]]] = {
    "simple": _simple,
    "lifecycle": _lifecycle,
    "array": _array,
    "function": _function,
}


def _operator(body: Body) -> str:
    """The first non-empty of the three spellings, in this order of precedence."""
    texts = (body.text(name) for name in ("operatorType", "operator", "operation"))
    return next(filter(None, texts), "")
