"""What runs have reported while they go on (docs/reference/executions.md#reports-of-runs).

Patches of a report take effect at once. A run may begin again, when the lease of its worker is lost, and a completion
brings all patches of its run. So it is remembered which of them had their effect, by number and as a digest: what
comes again under the same number has none, and where a run that began again goes another way its patches count from
there on. Such a run sees ``ctx`` as it was before the patches of the first one, so that ``ctx.n + 1`` is the same
number again.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject
from statewright.playbooks.patches import remove_member, write_member

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonValue
else:  # Any: msgspec, which reads documents back, cannot resolve an alias that contains itself
    JsonValue = Any

MAX_PATCHES: Final = 200
"""Of a run, that take effect before its end."""
MAX_CHARS: Final = 64 * 1024
"""Of the values that a run has replaced, and of those that it has set."""

Changes: TypeAlias = Sequence[tuple[str, JsonValue]]
"""Keys of ``ctx``, names with dots between them, and their values."""


class Replacement(Struct, frozen=True, array_like=True):
    """A member of ``ctx`` that a run has changed."""

    path: tuple[str, ...]
    existed: bool
    before: JsonValue
    after: JsonValue


class Progress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has been taken of the reports of a run."""

    lease: int
    """When the lease began of the worker that reported last, in epoch microseconds."""
    patches: tuple[str, ...] = ()
    """A digest of each patch that had its effect."""
    logged: int = 0
    """Entries of that worker's log that are in the event log."""
    replaced: tuple[Replacement, ...] = ()
    chars: int = 0


def count_known(progress: Progress | None, changes: Changes, first: int) -> int:
    """How many of the changes, the first of which is patch number ``first`` of its run, had their effect already."""
    known = progress.patches[first:] if progress is not None else ()
    count = 0
    while count < min(len(known), len(changes)) and known[count] == _digest(changes[count]):
        count += 1
    return count


def add_changes(progress: Progress, ctx: JsonObject, changes: Changes, first: int) -> Progress:
    """After changes to ``ctx`` that have an effect: patches of the run from number ``first`` on."""
    replaced, chars = list(progress.replaced), progress.chars
    for key, value in changes:
        path = tuple(key.split("."))
        found = _find_replaced(ctx, path)
        ctx = write_member(ctx, path, value)
        after = _read_member(ctx, found.path)[1]
        chars += len(encode([found.before, after]))
        replaced.append(replace(found, after=after))
    digests = (*progress.patches[:first], *map(_digest, changes))
    return replace(progress, patches=digests, replaced=tuple(replaced), chars=chars)


def restore(ctx: JsonObject, progress: Progress) -> JsonObject:
    """``ctx`` without what the run has changed, as far as nobody has changed it again."""
    for one in reversed(progress.replaced):
        if _read_member(ctx, one.path) == (True, one.after):
            ctx = write_member(ctx, one.path, one.before) if one.existed else remove_member(ctx, one.path)
    return ctx


def progress_to_document(progress: Mapping[str, Progress]) -> JsonObject:
    """That of all runs, by job."""
    return cast("JsonObject", msgspec.to_builtins(progress, builtin_types=(Decimal,), order="deterministic"))


def progress_from_document(document: JsonValue) -> dict[str, Progress]:
    """What :func:`progress_to_document` wrote. Raises ``ValueError`` for anything else."""
    return msgspec.convert(document, dict[str, Progress])


def _digest(change: tuple[str, JsonValue]) -> str:
    return blake2b(encode([change[0], change[1]]), digest_size=8).hexdigest()


def _find_replaced(ctx: JsonObject, path: tuple[str, ...]) -> Replacement:
    """What is replaced when a value is written at a path: on the way to it, what is no object."""
    scope = ctx
    for place, name in enumerate(path):
        if name not in scope:
            return Replacement(path[: place + 1], False, None, None)
        inner = scope[name]
        if place == len(path) - 1 or not isinstance(inner, dict):
            return Replacement(path[: place + 1], True, inner, None)
        scope = inner
    raise AssertionError("a path has a name")


def _read_member(scope: JsonValue, path: Sequence[str]) -> tuple[bool, JsonValue]:
    for name in path:
        if not isinstance(scope, dict) or name not in scope:
            return False, None
        scope = scope[name]
    return True, scope
