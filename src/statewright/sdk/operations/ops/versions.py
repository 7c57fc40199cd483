"""Versions of entities, and bringing them back (docs/reference/operations.md#versions)."""

from collections.abc import Sequence

from msgspec import Struct

from statewright.sdk.operations.calls import (
    Instant,
    Operation,
    Page,
    Script,
    build_key_header,
    build_query,
    quote_segment,
)
from statewright.sdk.operations.ops.answers import (
    Actor,
    Members,
    Value,
    build_call,
    build_reader,
    read_list,
    repeat_parameter,
)


class Version(Struct, frozen=True, rename="camel", kw_only=True):
    """A version of an entity. It held from ``at`` to ``until``, None: it is the last one. ``document`` is there only
    when one version was asked for.
    """

    transaction_id: str
    at: str
    state: str
    transition: str
    change_type: str
    attributed_to: Actor
    executed_by: Actor
    bytes: int
    current: bool
    until: str | None = None
    workflow: str | None = None
    workflow_revision: int | None = None
    document: Value = None


class Difference(Struct, frozen=True, kw_only=True):
    """What changed between two versions. ``patch`` is a JSON Patch: applied to the older document it gives the newer
    one. ``older`` and ``newer`` are transactions; the first version is compared with nothing.
    """

    older: str | None
    newer: str
    from_state: str | None
    to_state: str
    patch: tuple[Members, ...]


class Restored(Struct, frozen=True, rename="camel", kw_only=True):
    """What a restoration came to: nothing is written when the document is the same."""

    restored: bool
    patch: tuple[Members, ...]
    transaction_id: str = ""


def versions(
    entity_id: str, *, states: Sequence[str] = (), since: Instant | None = None, until: Instant | None = None
) -> Script[Page[Version]]:
    """The versions of an entity, newest first, also of a deleted one. ``until`` is exclusive."""
    query = (*repeat_parameter("state", states), *build_query(atFrom=since, atTo=until))
    path = f"/entities/{quote_segment(entity_id)}/versions"
    return (yield from read_list("versions", path, Version, query, target=(entity_id,)))


def version(entity_id: str, transaction_id: str) -> Operation[Version]:
    """One version, with its document."""
    path = f"/entities/{quote_segment(entity_id)}/versions/{quote_segment(transaction_id)}"
    return Operation(build_call("version", "GET", path, target=(entity_id, transaction_id)), _read_version)


def diff(entity_id: str, *, older: str | None = None, newer: str | None = None) -> Operation[Difference]:
    """What changed between two versions; without any, by the last one. Each is a transaction, an instant, ``current``
    or ``previous``.
    """
    query = (*build_query(to=newer), *((("from", older),) if older is not None else ()))
    path = f"/entities/{quote_segment(entity_id)}/diff"
    return Operation(build_call("diff", "GET", path, target=(entity_id,), query=query), _read_difference)


def restore(
    entity_id: str,
    version: str,
    *,
    reason: str,
    paths: Sequence[str] = (),
    transition: str | None = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
) -> Operation[Restored]:
    """Write a former document, or only what is at the JSON Pointers ``paths``, as the next version. For operators.

    ``version`` is a transaction, an instant or ``previous``; the ``reason`` is on record.
    """
    given = {"version": version, "reason": reason, "transition": transition, "ifMatch": if_match}
    body: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if paths:
        body["paths"] = list(paths)
    call = build_call(
        "restore",
        "POST",
        f"/entities/{quote_segment(entity_id)}/restore",
        target=(entity_id,),
        headers=build_key_header(idempotency_key),
        body=body,
    )
    return Operation(call, _read_restored)


class _States(Struct, frozen=True, rename={"older": "from", "newer": "to"}):
    older: str | None
    newer: str


class _Difference(Struct, frozen=True, rename={"older": "from", "newer": "to"}):
    older: str | None
    newer: str
    state: _States
    patch: tuple[Members, ...]


_read_version = build_reader(Version)
_read_restored = build_reader(Restored)
_read_raw_difference = build_reader(_Difference)


def _read_difference(body: bytes) -> Difference:
    found = _read_raw_difference(body)
    return Difference(
        older=found.older,
        newer=found.newer,
        from_state=found.state.older,
        to_state=found.state.newer,
        patch=found.patch,
    )
