"""The shared data of an execution: the workload, ``ctx``, results, and changes to them
(docs/reference/executions.md#scopes).
"""

from collections.abc import Mapping
from typing import Final

from statewright.jsonval.codec import encode
from statewright.jsonval.merging import merge_deep
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Problem
from statewright.playbooks.definition import Playbook
from statewright.playbooks.patches import remove_member, write_member

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
    """The members of ``ctx`` and ``results`` that are others than before (:mod:`statewright.playbooks.watching`)."""
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
