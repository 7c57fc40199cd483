"""What conditions can see, so that a token is asked about again only when something of it has changed."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from jinja2 import nodes
from msgspec import Struct

from statewright.playbooks.context import CTX, RESULTS
from statewright.playbooks.jinja.compiling import MAX_REMEMBERED, MAX_REMEMBERED_CHARS
from statewright.playbooks.jinja.parsing import parse
from statewright.playbooks.templates import Condition

_SCOPES: Final = (CTX, RESULTS)
_METHODS: Final = frozenset(("get", "items", "keys", "values", "length"))
"""Members that may be methods: then the whole scope is seen."""
_CONSTANT: Final = frozenset(("workload", "execution_id"))
_OF_THE_TOKEN: Final = frozenset(("args", "event"))


class Watched(Struct, frozen=True, kw_only=True):
    """What conditions can see."""

    parts: frozenset[str]
    """``ctx`` and ``results`` as a whole, and their members as ``ctx.name``."""
    sees_token: bool
    """Whether what they say may differ between tokens."""
    sees_event: bool


def find_watched(conditions: Iterable[Condition]) -> Watched:
    """What some conditions can see together."""
    parts: set[str] = set()
    names: set[str] = set()
    for condition in conditions:
        if isinstance(condition.source, str):
            seen = _look_into(condition.source)
            parts |= seen.parts
            names |= seen.names
    # a name that is no scope may be that of a result
    parts.update(f"{RESULTS}.{name}" for name in names - _CONSTANT - _OF_THE_TOKEN)
    return Watched(parts=frozenset(parts), sees_token=not names.isdisjoint(_OF_THE_TOKEN), sees_event="event" in names)


class _Seen(Struct, frozen=True):
    """What one condition names: scopes and members of them, and all other names."""

    parts: frozenset[str]
    names: frozenset[str]


def _look_into(source: str) -> _Seen:
    return _remember(source) if len(source) <= MAX_REMEMBERED_CHARS else _collect(source)


def _collect(source: str) -> _Seen:
    text = source.strip()
    parts: set[str] = set()
    names: set[str] = set()
    pending: list[nodes.Node] = [parse(text if text.startswith("{{") else f"{{{{ {text} }}}}")]
    while pending:
        node = pending.pop()
        member = _find_member(node)
        if member is not None:
            parts.add(member)
        elif isinstance(node, nodes.Name):
            (parts if node.name in _SCOPES else names).add(node.name)
        else:
            pending.extend(node.iter_child_nodes())
    return _Seen(frozenset(parts), frozenset(names))


_remember = lru_cache(maxsize=MAX_REMEMBERED)(_collect)


def _find_member(node: nodes.Node) -> str | None:
    """``ctx.name`` for a member of a scope that is named in the text."""
    if isinstance(node, nodes.Getattr):
        inner, name = node.node, node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
        inner, name = node.node, node.arg.value
    else:
        return None
    if not isinstance(inner, nodes.Name) or inner.name not in _SCOPES or name in _METHODS:
        return None
    return f"{inner.name}.{name}"
