"""``set_ctx``, ``set_iter`` and ``set``: what is written, and where."""

from typing import Final, Literal

from statewright.playbooks.definition import Assignment
from statewright.playbooks.place import Place

_READ_ONLY: Final = frozenset(
    ("args", "event", "execution_id", "input", "keychain", "outcome", "output", "results", "workload")
)


def read_assignments(place: Place, scope: Literal["ctx", "iter"]) -> tuple[Assignment, ...]:
    """A mapping of keys to values for one scope (``set_ctx``, ``set_iter``)."""
    members = (place.get(key) for key in place.read_mapping())
    return tuple(found for member in members if (found := _read(member, scope, _get_key(member))) is not None)


def read_scoped_assignments(place: Place, *, allows_iter: bool) -> tuple[Assignment, ...]:
    """A mapping of keys with their scopes (``set``): ``ctx.a``, ``iter.a``; without a scope it is ``ctx``."""
    found: list[Assignment] = []
    for key in place.read_mapping():
        member = place.get(key)
        scope, _, rest = key.partition(".")
        if rest and scope in _READ_ONLY:
            member.refuse(f"cannot be set: {scope} does not change; expected a key of ctx or iter")
        elif rest and scope == "iter" and not allows_iter:
            member.refuse("cannot be set here: iter lives within a pipeline; expected a key of ctx")
        else:
            scoped: Literal["ctx", "iter"] = "iter" if rest and scope == "iter" else "ctx"
            assignment = _read(member, scoped, rest if rest and scope in ("ctx", "iter", "step") else key)
            if assignment is not None:
                found.append(assignment)
    return tuple(found)


def _get_key(member: Place) -> str:
    return member.path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _read(member: Place, scope: Literal["ctx", "iter"], key: str) -> Assignment | None:
    path = tuple(key.split("."))
    if not all(path):
        member.refuse("has a key with an empty part; expected names with dots between them")
        return None
    return Assignment(scope=scope, path=path, value=member.read_template())
