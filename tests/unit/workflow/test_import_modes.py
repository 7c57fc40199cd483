from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from statewright.workflow import IMPORT_MODES, Workflow
from tests.unit.workflow.builders import SEED, a_workflow, imported

MERGE, REPLACE, ACTIVATE = (IMPORT_MODES[mode] for mode in ("MERGE", "REPLACE", "ACTIVATE"))


def named(names: str, desc: str, active: Sequence[bool] = ()) -> tuple[Workflow, ...]:
    flags = [*active, *[True] * len(names)]
    return imported(*(a_workflow(name, desc=desc, active=flag) for name, flag in zip(names, flags, strict=False)))


def told(workflows: tuple[Workflow, ...]) -> list[str]:
    return [f"{workflow.name} {workflow.desc}{'' if workflow.active else ' off'}" for workflow in workflows]


def test_merge_replaces_in_place_and_appends_new_names_in_request_order():
    merged = MERGE(named("abc", "old"), named("dbe", "new"))
    assert told(merged) == ["a old", "b new", "c old", "d new", "e new"]


def test_merge_replaces_a_workflow_wholly():
    stored = imported(a_workflow("a", desc="old", annotations={"x": 1}))
    (merged,) = MERGE(stored, imported(a_workflow("a")))
    assert (merged.desc, merged.annotations) == ("", None)


def test_replace_keeps_only_what_came_in():
    assert told(REPLACE(named("abc", "old"), named("cz", "new"))) == ["c new", "z new"]


def test_activate_keeps_the_others_inactive_and_moves_what_came_in_to_the_tail():
    activated = ACTIVATE(named("abc", "old"), named("bd", "new"))
    assert told(activated) == ["a old off", "c old off", "b new", "d new"]


def test_no_mode_touches_the_active_flag_of_what_came_in():
    incoming = named("ab", "new", [False, True])
    for mode in IMPORT_MODES.values():
        assert told(mode(named("a", "old"), incoming))[-2:] == ["a new off", "b new"]


def test_activate_also_deactivates_workflows_of_the_seed_contract():
    stored = imported(a_workflow("a", version=SEED))
    assert told(ACTIVATE(stored, named("b", "new"))) == ["a  off", "b new"]


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)
LISTS = st.builds(lambda names, desc: named("".join(names), desc), NAMES, st.sampled_from(["one", "two"]))


@given(LISTS)
def test_an_empty_merge_changes_nothing(stored):
    assert MERGE(stored, ()) == stored


@given(LISTS, LISTS)
def test_every_mode_is_idempotent(stored, incoming):
    for mode in IMPORT_MODES.values():
        once = mode(stored, incoming)
        assert mode(once, incoming) == once


@given(LISTS, LISTS)
def test_every_mode_keeps_names_unique_and_every_incoming_workflow(stored, incoming):
    for mode in IMPORT_MODES.values():
        result = mode(stored, incoming)
        assert len({workflow.name for workflow in result}) == len(result)
        assert all(workflow in result for workflow in incoming)


@given(LISTS, LISTS, LISTS)
def test_replace_forgets_what_was_before(stored, between, incoming):
    assert REPLACE(REPLACE(stored, between), incoming) == incoming


@given(LISTS, LISTS)
def test_activate_leaves_nothing_active_but_what_came_in(stored, incoming):
    names = {workflow.name for workflow in incoming}
    assert all(not workflow.active for workflow in ACTIVATE(stored, incoming) if workflow.name not in names)


@given(LISTS, LISTS)
def test_merge_and_activate_keep_the_same_names(stored, incoming):
    merged, activated = MERGE(stored, incoming), ACTIVATE(stored, incoming)
    assert {workflow.name for workflow in merged} == {workflow.name for workflow in activated}
