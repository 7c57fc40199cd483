"""The shared data of an execution: the workload, ``ctx``, results, and changes to them
(docs/reference/executions.md#scopes).

Writing members of ``ctx`` and ``iter``, without changing what others hold.

What conditions can see, so that a token is asked about again only when something of it has changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue, merge_deep
from statewright.net import Problem
from statewright.playbooks.definition import Playbook
from statewright.playbooks.templates import Condition


class Patch(Struct, frozen=True, kw_only=True):
    """One member of ``ctx`` that gets a value."""

    path: tuple[str, ...]
    """The member, and those within it; never empty."""
    value: JsonValue

    def to_document(self) -> JsonObject:
        """As reports of workers have it."""
        return {"path": list(self.path), "value": self.value}


def write_member(scope: JsonObject, path: Sequence[str], value: JsonValue) -> JsonObject:
    """The object with a value at a path. On the way what is no object is replaced by one."""
    name, *rest = path
    if not rest:
        return {**scope, name: value}
    inner = scope.get(name)
    return {**scope, name: write_member(inner if isinstance(inner, dict) else {}, rest, value)}


def remove_member(scope: JsonObject, path: Sequence[str]) -> JsonObject:
    """The object without what is at a path, if anything is."""
    name, *rest = path
    if name not in scope:
        return scope
    if not rest:
        return {key: value for key, value in scope.items() if key != name}
    inner = scope[name]
    return {**scope, name: remove_member(inner, rest)} if isinstance(inner, dict) else scope


WORKLOAD: Final = "workload"
CTX: Final = "ctx"
RESULTS: Final = "results"
EXECUTION: Final = "execution"
"""What the execution is: its ``id``; ``depth``, how many others it runs within; ``iter`` of the element of a loop that
awaits it.
"""
LAST: Final = "last"
"""The step whose result came last."""
HAS_GAPS: Final = "hasGaps"
"""Whether a loop went on without elements that failed."""
CTX_CHARS: Final = "ctxChars"
"""How long ``ctx`` is at most, as JSON."""

DELETED: Final = ""
"""The member of changes that lists keys which are removed. No key is empty."""
CTX_LIMIT: Final = "CTX_LIMIT"


def build_data(
    playbook: Playbook,
    execution_id: str,
    workload: JsonObject,
    ctx: JsonObject,
    *,
    depth: int = 0,
    parent_iter: JsonValue = None,
) -> JsonObject:
    """The data with which an execution begins: the request's workload over that of the playbook. ``parent_iter`` is
    ``iter`` of the element of a loop that it runs within.
    """
    known: JsonObject = {"id": execution_id, "depth": depth}
    return {
        WORKLOAD: merge_deep(playbook.workload, workload),
        CTX: ctx,
        CTX_CHARS: len(encode(ctx)),
        RESULTS: {},
        EXECUTION: known if parent_iter is None else {**known, "iter": parent_iter},
    }


def get_member(data: JsonObject, name: str) -> JsonObject:
    """A member of the data that is an object."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def describe_patch(patch: Mapping[str, JsonValue]) -> JsonObject:
    """The changes that a patch from outside asks for: null removes a key."""
    changes: JsonObject = {key: value for key, value in patch.items() if value is not None}
    deleted: list[JsonValue] = [key for key, value in patch.items() if value is None]
    return {**changes, DELETED: deleted} if deleted else changes


def is_key(text: str) -> bool:
    """Whether it names a member of ``ctx``, or with dots one within it."""
    return all(text.split("."))


def change_context(data: JsonObject, changes: JsonObject, max_chars: int) -> "JsonObject | Problem":
    """The data after changes to ``ctx``, keys with dots being members within members.

    ``max_chars``: of ``ctx`` as JSON. How long it is, is known as a bound that grows by what is written, and is
    measured only when that could be too much.
    """
    ctx = get_member(data, CTX)
    for key, value in changes.items():
        if key != DELETED:
            ctx = write_member(ctx, key.split("."), value)
    deleted = changes.get(DELETED)
    for name in deleted if isinstance(deleted, list) else ():
        ctx = remove_member(ctx, str(name).split("."))
    known = data.get(CTX_CHARS)
    chars = (known if isinstance(known, int) else 0) + len(encode(changes))
    if chars > max_chars and (chars := len(encode(ctx))) > max_chars:
        message = f"ctx would have {chars} bytes, more than {max_chars}"
        return Problem(f"{CTX_LIMIT}: {message}", {"kind": "ctx_limit", "message": message})
    return {**data, CTX: ctx, CTX_CHARS: chars}


def find_changed_parts(before: JsonObject, after: JsonObject) -> frozenset[str]:
    """The members of ``ctx`` and ``results`` that are others than before (:mod:`statewright.playbooks.context`)."""
    changed: set[str] = set()
    for scope in (CTX, RESULTS):
        old, new = get_member(before, scope), get_member(after, scope)
        if old is new:
            continue
        names = [name for name, value in new.items() if name not in old or old[name] is not value]
        names += [name for name in old if name not in new]
        if names:
            changed.add(scope)
            changed.update(f"{scope}.{name}" for name in names)
    return frozenset(changed)


_SCOPES: Final = (CTX, RESULTS)
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
        for _, expression in condition.list_expressions():
            for name, *members in expression.paths:
                if name not in _SCOPES:
                    names.add(name)
                else:
                    parts.add(f"{name}.{members[0]}" if members else name)
    # a name that is no scope may be that of a result, or of what the token carries
    parts.update(f"{RESULTS}.{name}" for name in names - _CONSTANT - _OF_THE_TOKEN)
    return Watched(parts=frozenset(parts), sees_token=bool(names - _CONSTANT), sees_event="event" in names)
