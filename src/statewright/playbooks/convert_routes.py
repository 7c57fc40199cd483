"""The older forms of ``next`` and ``case``: lists of branches, to arcs (docs/reference/playbooks.md#older-forms)."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.context import get_member
from statewright.playbooks.convert_names import OUTCOME_NAMES, join_conditions, read_expression, rename
from statewright.playbooks.place import Place

_ARGS: Final = ("args", "data", "input", "params", "payload", "with")
"""The names of what an arc gives the step that it leads to."""
_CONDITIONS: Final = ("condition", "expr", "when")
_SYNONYMS: Final[Mapping[str, str]] = {**dict.fromkeys(_ARGS, "args"), **dict.fromkeys(_CONDITIONS, "when")}
_ACTIONS: Final[Mapping[str, str]] = {
    "call": "expected a step with that tool, and an arc to it",
    "collect": "expected set of the arc, or a task that collects",
    "fail": "expected do: fail in spec.policy.rules of the task",
    "result": "expected set of the arc",
    "retry": "expected do: retry in spec.policy.rules of the task",
    "save": "expected a task behind that of the step, or a step with that tool and an arc to it",
    "sink": "expected a task behind that of the step, or a step with that tool and an arc to it",
    "tool": "expected a step with that tool, and an arc to it",
}
"""What older branches may do beside leading somewhere, and what does it today."""
_NESTED: Final = "is a condition within a condition; expected both in one when, joined by and"


class _Branch(Struct, frozen=True, kw_only=True):
    """Steps that are gone to together."""

    place: Place
    when: JsonValue = None
    is_else: bool = False
    arcs: tuple[JsonObject, ...] = ()


def read_assignments(place: Place) -> JsonObject:
    """``vars`` or ``set_ctx`` of a step or branch as ``set``."""
    return {f"ctx.{name}": value for name, value in place.read_mapping().items()}


def join_assignments(place: Place, assigned: JsonObject, others: JsonObject) -> JsonObject:
    """What ``place`` assigns, and what is assigned beside it, which is something else."""
    for name in assigned.keys() & others.keys():
        place.refuse(f"sets {name}, which is set beside it, too; expected it once")
    return {**assigned, **others}


def convert_routes(step: Place, mode: JsonValue, known: frozenset[str]) -> "JsonObject | None":
    """The router of a step with ``next`` or ``case`` in any form; ``None`` if it has neither. ``mode``: that of an
    older place of it.
    """
    router, case = step.get("next"), step.get("case")
    if router.is_absent and case.is_absent:
        return None
    outer = dict(router.value) if isinstance(router.value, dict) and "arcs" in router.value else {}
    spec = get_member(outer, "spec")
    mode = mode or outer.pop("mode", None) or spec.get("mode")
    if outer and case.is_absent:
        arcs = [_convert_arc(arc) for arc in router.get("arcs").list_items()]
        chosen = mode
    else:
        branches = [*_list_branches(case), *(_list_branches(router) if case.is_absent else _list_last(router))]
        chosen, found = _arrange(branches, mode, step)
        arcs = [_rename_arc(arc, known) for arc in found]
    written: JsonObject = {**spec, **({"mode": chosen} if chosen else {})}
    kept = {name: value for name, value in outer.items() if name not in ("arcs", "spec")}
    return {**({"spec": written} if written else {}), **kept, "arcs": list(arcs)}


def _rename_arc(arc: JsonObject, known: frozenset[str]) -> JsonObject:
    renamed = rename(arc, OUTCOME_NAMES, known)
    assert isinstance(renamed, dict)  # noqa: S101 - a mapping stays one
    return renamed


def _list_last(router: Place) -> list[_Branch]:
    """``next`` beside ``case``: where to go when no case holds."""
    branches = _list_branches(router)
    if len(branches) > 1 and all(branch.when is None for branch in branches):
        arcs = tuple(arc for branch in branches for arc in branch.arcs)
        return [_Branch(place=router, is_else=True, arcs=arcs)]
    return branches


def _list_branches(place: Place) -> list[_Branch]:
    """The branches of ``next`` or ``case``."""
    value = place.value
    if isinstance(value, dict) and "arcs" in value:
        place = place.get("arcs")
    if isinstance(place.value, list):
        return [branch for item in place.list_items() for branch in _read_branch(item)]
    return [] if place.is_absent else list(_read_branch(place))


def _read_branch(item: Place) -> Iterator[_Branch]:
    value = item.value
    if isinstance(value, str):
        yield _Branch(place=item, arcs=({"step": value},))
    elif not isinstance(value, dict):
        item.expect("the name of a step, or a mapping with step, or with when and then")
    elif "else" in value:
        yield _Branch(place=item, is_else=True, arcs=tuple(_list_targets(item.get("else"))))
        _refuse_rest(item, ("else",))
    elif "then" in value:
        item.refuse_synonyms(_SYNONYMS)
        when = next((value[name] for name in _CONDITIONS if name in value), None)
        yield _Branch(place=item, when=when, arcs=tuple(_list_targets(item.get("then"))))
        _refuse_rest(item, ("then", *_CONDITIONS))
    else:
        arc = _convert_arc(item)
        yield _Branch(place=item, when=arc.pop("when", None), arcs=(arc,))


def _refuse_rest(item: Place, known: tuple[str, ...]) -> None:
    for name in item.read_mapping():
        if name not in known:
            item.get(name).refuse(f"is not understood in a branch; expected {', '.join(known)}")


def _list_targets(then: Place) -> list[JsonObject]:
    """The arcs of what follows a condition: a step, a list of them, or actions with ``next``."""
    places = list(then.list_items()) if isinstance(then.value, list) else [then]
    arcs, assigned = list[JsonObject](), dict[str, JsonValue]()
    for place in places:
        value = place.value
        if isinstance(value, str):
            arcs.append({"step": value})
        elif not isinstance(value, dict):
            place.expect("the name of a step, or a mapping with step or next")
        elif "step" in value:
            arcs.append(_convert_arc(place))
        else:
            arcs += [arc for branch in _list_branches(place.get("next")) for arc in _take_arcs(branch)]
            assigned |= _read_actions(place)
    if assigned and not arcs:
        then.refuse("writes values and goes nowhere; expected set of the step, or a step to go to")
    return [{**arc, "set": {**assigned, **get_member(arc, "set")}} if assigned else arc for arc in arcs]


def _take_arcs(branch: _Branch) -> tuple[JsonObject, ...]:
    if branch.when is not None:
        branch.place.refuse(_NESTED)
    return branch.arcs


def _guard(branch: _Branch, when: JsonValue) -> list[JsonObject]:
    """The arcs of a branch under a condition, if there is one."""
    if when is None:
        return [*branch.arcs]
    if any("when" in arc for arc in branch.arcs):
        branch.place.refuse(_NESTED)
    return [{**arc, "when": when} for arc in branch.arcs]


def _read_actions(place: Place) -> JsonObject:
    """What a branch assigns; anything else that it does is refused."""
    assigned: JsonObject = {}
    for name in place.read_mapping():
        member = place.get(name)
        if name in ("set_ctx", "vars"):
            assigned = join_assignments(member, read_assignments(member), assigned)
        elif name == "set":
            assigned = join_assignments(member, member.read_mapping(), assigned)
        elif name != "next":
            member.refuse(f"cannot be converted; {_ACTIONS.get(name, 'expected next or set')}")
    return assigned


def _convert_arc(place: Place) -> JsonObject:
    """An arc with the names of today; what is not known stays, and is found when it is read."""
    arc = dict[str, JsonValue]()
    place.refuse_synonyms(_SYNONYMS)
    for name, value in place.read_mapping().items():
        if name in ("set_ctx", "vars") or (name == "set" and isinstance(value, dict)):
            member = place.get(name)
            assigned = member.read_mapping() if name == "set" else read_assignments(member)
            arc["set"] = join_assignments(member, assigned, get_member(arc, "set"))
        else:
            arc[_SYNONYMS.get(name, name)] = value
    return arc


def _arrange(branches: list[_Branch], mode: JsonValue, step: Place) -> tuple[str | None, list[JsonObject]]:
    """The mode of a router, ``None`` where that of the document stays as it is, and its arcs in order."""
    guarded = [branch for branch in branches if branch.when is not None]
    last = [branch for branch in branches if branch.is_else]
    if len(last) > 1:
        last[1].place.refuse("is a second else; expected one")
    if not guarded and not last:
        arcs = [arc for branch in branches for arc in branch.arcs]
        chosen = mode if isinstance(mode, str) else ("inclusive" if len(arcs) > 1 else None)
        return chosen, arcs
    order = [branch for branch in branches if not branch.is_else] + last[:1]
    if mode == "inclusive":
        return "inclusive", _guard_all(order, others=guarded)
    if all(len(branch.arcs) == 1 for branch in order[:-1]) and len(order[-1].arcs) <= 1:
        if mode is None and len(order) > 1:
            step.warn("takes the first branch that holds: next.spec.mode is exclusive; expected inclusive for all")
        arcs = [arc for branch in order for arc in _guard(branch, branch.when)]
        return (mode if isinstance(mode, str) else None), arcs
    step.warn("has branches to several steps or none: its arcs are inclusive, and say that no earlier branch holds")
    return "inclusive", _guard_in_turn(order)


def _guard_all(order: list[_Branch], *, others: list[_Branch]) -> list[JsonObject]:
    """Arcs that all fire that hold, the last ones where no other does."""
    arcs = list[JsonObject]()
    for branch in order:
        when = branch.when if not branch.is_else else _exclude(None, others, branch)
        arcs += _guard(branch, when)
    return arcs


def _guard_in_turn(order: list[_Branch]) -> list[JsonObject]:
    """Arcs of which those of the first branch that holds fire."""
    arcs, before = list[JsonObject](), list[_Branch]()
    for branch in order:
        when = _exclude(branch.when, before, branch) if before else branch.when
        arcs += _guard(branch, when)
        before.append(branch)
    return arcs


def _exclude(when: JsonValue, others: list[_Branch], branch: _Branch) -> str:
    """The condition of a branch that holds only where those of others do not."""
    read = [read_expression(other.when) for other in others]
    own = None if when is None else read_expression(when)
    fails = [expression for expression in read if expression is not None]
    if len(fails) < len(read) or (when is not None and own is None):
        branch.place.refuse("cannot be told apart from the branches before it; expected conditions of one expression")
    return join_conditions(own, fails)
