"""Writing members of ``ctx`` and ``iter``, without changing what others hold."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue


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


def apply_patches(ctx: JsonObject, patches: Iterable[Patch]) -> JsonObject:
    """``ctx`` after patches, in their order."""
    for patch in patches:
        ctx = write_member(ctx, patch.path, patch.value)
    return ctx
