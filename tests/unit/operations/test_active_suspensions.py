"""Which suspension stops what: a node's tables against the plain sentence of each scope
(docs/reference/operations.md#suspensions).
"""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from statewright.engine.simulation.simulator import JumpingLoop
from statewright.entity import Actor, ModelKey
from statewright.failures import Suspended
from statewright.ids import EntityId, TenantId, model_id
from statewright.operations.active_suspensions import (
    FLAGGED,
    ActiveSuspensions,
    Suspension,
    Target,
    describe_target,
    list_held_timers,
)
from statewright.operations.suspensions import SCOPES, Scope

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
TENANTS = (ACME, GLOBEX)
IDS = ("e-1", "e-2")
MODELS = (ModelKey("prize", 1), ModelKey("prize", 2))
WORKFLOWS = ("short", "long")
TRANSITIONS = ("APPROVE", "REJECT")
DEFINITIONS = ("loan", "claim")
NAMES = ("fax", "mail")

tenants = st.sampled_from(TENANTS)
models = st.sampled_from(MODELS)

TARGETS: dict[Scope, st.SearchStrategy[Target]] = {
    "ENTITY": st.builds(Target, id=st.sampled_from(IDS)),
    "INSTANCE": st.builds(Target, id=st.sampled_from(IDS)),
    "MODEL": st.builds(Target, model=models),
    "WORKFLOW": st.builds(Target, model=models, workflow=st.sampled_from(WORKFLOWS)),
    "TRANSITION": st.builds(
        Target,
        model=models,
        workflow=st.none() | st.sampled_from(WORKFLOWS),
        transition=st.sampled_from(TRANSITIONS),
    ),
    "DEFINITION": st.builds(Target, definition=st.sampled_from(DEFINITIONS)),
    "JOB_TYPE": st.builds(Target, name=st.sampled_from(NAMES)),
    "TAG": st.builds(Target, name=st.sampled_from([*NAMES, "FAX"])),
    "TENANT": st.just(Target()),
}


def a_suspension(
    scope: Scope, target: Target, *, tenant: TenantId = ACME, id_: str = "s", revision: int = 1
) -> Suspension:
    return Suspension(
        id=id_,
        tenant=tenant,
        scope=scope,
        target=target,
        reason="maintenance",
        since=0,
        by=Actor("olga", "user"),
        revision=revision,
    )


@st.composite
def sets_of_suspensions(draw: st.DrawFn) -> list[Suspension]:
    """Such as a database has them: no two of one target, names of tags in any case being one."""
    found: dict[tuple[object, ...], Suspension] = {}
    for number in range(draw(st.integers(0, 8))):
        scope: Scope = draw(st.sampled_from(SCOPES))
        target = draw(TARGETS[scope])
        made = a_suspension(scope, target, tenant=draw(tenants), id_=f"s-{number}", revision=number + 1)
        found.setdefault((made.tenant, scope, describe_target(target).lower()), made)
    return [*found.values()]


def load(suspensions: Iterable[Suspension], revision: int = 99) -> ActiveSuspensions:
    active = ActiveSuspensions()
    active.replace_all(suspensions, revision)
    return active


def pick(suspensions: Iterable[Suspension], *tests: Callable[[Suspension], bool]) -> list[str]:
    """The ids of those that pass a test, in the order of the tests."""
    all_ = [*suspensions]
    return [each.id for test in tests for each in all_ if test(each)]


class Unit:
    """A transaction of a run, or of a request that joins one."""

    def __init__(self, tenant: TenantId = ACME, *, may_segment: bool = True) -> None:
        self.tenant = tenant
        self.may_segment = may_segment
        self.on_close: list[Callable[[], None]] = []

    def close(self) -> None:
        for call in self.on_close:
            call()


@given(sets_of_suspensions(), tenants, st.sampled_from(IDS), models, st.sampled_from(WORKFLOWS))
def test_an_entity_is_stopped_by_its_own_its_workflow_its_model_and_its_tenant(
    suspensions: list[Suspension], tenant: TenantId, entity: str, model: ModelKey, workflow: str
):
    own = [each for each in suspensions if each.tenant == tenant]

    found = load(suspensions).list_entity(tenant, entity, model, workflow)

    assert [each.id for each in found] == pick(
        own,
        lambda each: each.scope == "ENTITY" and each.target.id == entity,
        lambda each: each.scope == "WORKFLOW" and (each.target.model, each.target.workflow) == (model, workflow),
        lambda each: each.scope == "MODEL" and each.target.model == model,
        lambda each: each.scope == "TENANT",
    )


@given(sets_of_suspensions(), tenants, models, st.sampled_from(WORKFLOWS), st.sampled_from(TRANSITIONS))
def test_a_transition_is_stopped_in_its_workflow_before_in_all_workflows(
    suspensions: list[Suspension], tenant: TenantId, model: ModelKey, workflow: str, transition: str
):
    def is_of(each: Suspension, name: str | None) -> bool:
        target = each.target
        return each.tenant == tenant and (target.model, target.workflow, target.transition) == (model, name, transition)

    expected = pick(
        [each for each in suspensions if each.scope == "TRANSITION"],
        lambda each: is_of(each, workflow),
        lambda each: is_of(each, None),
    )
    active = load(suspensions)

    found = active.find_transition(tenant, model, workflow, transition)

    assert (found.id if found else None) == (expected[0] if expected else None)
    assert active.find_hold(tenant, model, workflow, transition) == ("suspended" if expected else None)


@given(sets_of_suspensions(), tenants, st.sampled_from(IDS), st.sampled_from(DEFINITIONS))
def test_an_instance_is_stopped_as_entity_as_instance_by_its_definition_and_its_tenant(
    suspensions: list[Suspension], tenant: TenantId, instance: str, definition: str
):
    own = [each for each in suspensions if each.tenant == tenant]
    expected = pick(
        own,
        lambda each: each.scope == "ENTITY" and each.target.id == instance,
        lambda each: each.scope == "INSTANCE" and each.target.id == instance,
        lambda each: each.scope == "DEFINITION" and each.target.definition == definition,
        lambda each: each.scope == "TENANT",
    )
    active = load(suspensions)

    assert [each.id for each in active.list_process(tenant, instance, definition)] == expected
    narrowest = active.find_process(tenant, instance, definition)
    assert (narrowest.id if narrowest else None) == (expected[0] if expected else None)
    broad = [id_ for id_ in expected if id_ in pick(own, lambda each: each.scope in {"DEFINITION", "TENANT"})]
    starting = active.find_definition(tenant, definition)
    assert (starting.id if starting else None) == (broad[0] if broad else None)


@given(sets_of_suspensions(), tenants, st.lists(st.sampled_from(["Fax", "fax", "MAIL", "post"]), max_size=3))
def test_tags_are_compared_in_any_case_and_job_types_as_they_are(
    suspensions: list[Suspension], tenant: TenantId, tags: list[str]
):
    own = [each for each in suspensions if each.tenant == tenant]
    active = load(suspensions)

    tag = active.find_tags(tenant, tags)
    stopped = {
        each.id for each in own if each.scope == "TAG" and (each.target.name or "").lower() in map(str.lower, tags)
    }
    assert (tag is not None) == bool(stopped)
    assert tag is None or tag.id in stopped
    for name in tags:
        job = active.find_job_type(tenant, name)
        expected = pick(
            own,
            lambda each, name=name: each.scope == "JOB_TYPE" and each.target.name == name,
            lambda each: each.scope == "TENANT",
        )
        assert (job.id if job else None) == (expected[0] if expected else None)


@given(sets_of_suspensions(), tenants)
def test_what_a_tenant_has_is_told_alike_by_all_short_answers(suspensions: list[Suspension], tenant: TenantId):
    own = [each for each in suspensions if each.tenant == tenant]
    active = load(suspensions)

    assert active.is_idle(tenant) == (not own)
    assert active.has_job_types(tenant) == any(each.scope == "JOB_TYPE" for each in own)
    assert {each.id for each in active.list_broad(tenant)} == {each.id for each in own if each.scope not in FLAGGED}
    assert {scope: n for (of, scope), n in active.count().items() if of == tenant} == {
        scope: sum(each.scope == scope for each in own) for scope in {each.scope for each in own}
    }
    held = active.get_held_processes(tenant)
    definitions = {each.target.definition for each in own if each.scope == "DEFINITION"}
    has_instances = any(each.scope in FLAGGED for each in own)
    if held is None:
        assert not definitions
        assert not has_instances
    else:
        assert ({*held.definitions}, held.has_instances) == (definitions, has_instances)


@given(sets_of_suspensions())
def test_the_scheduler_leaves_the_timers_of_models_and_tenants_and_no_others(suspensions: list[Suspension]):
    active = load(suspensions)
    held = active.held_timers
    if not suspensions:
        assert held is None
        return
    assert held is not None

    rows = {*zip(held.tenants, held.models, held.workflows, held.transitions, strict=True)}

    expected = {
        (each.tenant, model and model_id(model.name, model.version), each.target.workflow, each.target.transition)
        for each in suspensions
        for model in [each.target.model]
        if each.scope in {"MODEL", "WORKFLOW", "TRANSITION", "TENANT"}
    }
    assert rows == expected


@given(sets_of_suspensions(), sets_of_suspensions())
def test_what_is_loaded_replaces_all_that_was_known(before: list[Suspension], after: list[Suspension]):
    told: list[int] = []
    active = load(before, revision=3)
    active.on_change.append(lambda: told.append(active.revision))

    active.replace_all(after, 4)

    fresh = load(after, revision=4)
    assert told == [4]
    assert active.count() == fresh.count()
    assert active.held_timers == fresh.held_timers
    for tenant in TENANTS:
        assert active.list_broad(tenant) == fresh.list_broad(tenant)
        assert active.get_held_processes(tenant) == fresh.get_held_processes(tenant)
        assert active.has_job_types(tenant) == fresh.has_job_types(tenant)


@given(
    sets_of_suspensions(),
    st.booleans(),
    st.sampled_from(IDS),
    models,
    st.sampled_from(WORKFLOWS),
    st.sampled_from(["", *TRANSITIONS]),
)
def test_a_run_moves_only_what_nothing_stops_and_what_joins_one_heeds_entities_alone(
    suspensions: list[Suspension], may_segment: bool, entity: str, model: ModelKey, workflow: str, transition: str
):
    active = load(suspensions)
    stops = [*active.list_entity(ACME, entity, model, workflow)]
    if transition and (held := active.find_transition(ACME, model, workflow, transition)):
        stops.append(held)
    if not may_segment:
        stops = [each for each in stops if each.scope == "ENTITY"]
    unit = Unit(may_segment=may_segment)

    def admit() -> None:
        active.admit_move(unit, model, EntityId(entity), workflow, transition)

    if stops:
        with pytest.raises(Suspended) as refused:
            admit()
        assert refused.value.properties["suspensionId"] == stops[0].id
        assert active.refusals == {stops[0].scope: 1}
    else:
        admit()
        assert not active.refusals


@given(sets_of_suspensions(), st.lists(st.sampled_from(NAMES), max_size=2))
def test_a_callout_is_refused_where_one_of_its_tags_is_suspended(suspensions: list[Suspension], tags: list[str]):
    active = load(suspensions)
    if active.find_tags(ACME, tags) is None:
        active.admit_callout(ACME, tags)
    else:
        with pytest.raises(Suspended):
            active.admit_callout(ACME, tags)
        assert active.refusals == {"TAG": 1}


def run_on_jumping_clock(active: ActiveSuspensions, *runs: tuple[Unit, ModelKey, str]) -> None:
    async def admit() -> None:
        for unit, model, workflow in runs:
            await active.admit_run(unit, model, EntityId("e-9"), workflow, "")

    loop = JumpingLoop()
    try:
        loop.run_until_complete(admit())
    finally:
        loop.close()


@given(sets_of_suspensions(), st.lists(st.tuples(tenants, models, st.sampled_from(WORKFLOWS)), max_size=5))
def test_runs_that_began_before_a_suspension_of_what_they_move_are_under_way(
    suspensions: list[Suspension], moved: list[tuple[TenantId, ModelKey, str]]
):
    active = ActiveSuspensions()
    runs = [(Unit(tenant), model, workflow) for tenant, model, workflow in moved]
    run_on_jumping_clock(active, *runs)

    active.replace_all(suspensions, revision=99)

    def covers(each: Suspension, run: tuple[Unit, ModelKey, str]) -> bool:
        unit, model, workflow = run
        if each.tenant != unit.tenant:
            return False
        own = each.target.model == model and each.target.workflow in {None, workflow}
        return each.scope == "TENANT" or (each.target.model is not None and own)

    expected = {each.id: n for each in suspensions if (n := sum(covers(each, run) for run in runs))}
    assert active.count_under_way() == expected
    late: list[str] = []
    active.on_late_end = lambda: late.append("ended")
    for unit, *_ in runs:
        unit.close()
    assert (active.count_under_way(), len(late)) == ({}, len(runs))


def test_a_run_that_began_under_the_suspensions_that_hold_is_not_late():
    active, unit = load([], revision=5), Unit()
    late: list[str] = []
    active.on_late_end = lambda: late.append("ended")
    run_on_jumping_clock(active, (unit, MODELS[0], "short"), (unit, MODELS[0], "long"))
    unit.close()
    assert late == []
    assert len(unit.on_close) == 1, "a run registers once, however often it asks"


def test_a_run_counts_from_its_first_move_also_when_it_is_refused_a_later_one():
    active, early, late = load([], revision=5), Unit(), Unit()
    run_on_jumping_clock(active, (early, MODELS[0], "short"))
    active.replace_all([a_suspension("MODEL", Target(model=MODELS[0]), revision=6)], 6)
    for unit in (early, late):
        with pytest.raises(Suspended):
            run_on_jumping_clock(active, (unit, MODELS[0], "short"))
    assert active.count_under_way() == {"s": 1}


def test_what_joins_a_run_is_never_counted():
    active, joined = ActiveSuspensions(), Unit(may_segment=False)
    run_on_jumping_clock(active, (joined, MODELS[0], "short"))
    active.replace_all([a_suspension("TENANT", Target())], 1)
    assert (active.count_under_way(), joined.on_close) == ({}, [])


def test_a_node_that_the_others_take_for_dead_looks_before_it_lets_a_run_begin():
    active = ActiveSuspensions()
    active.presence.until = 0.0

    async def refresh() -> None:
        active.replace_all([a_suspension("MODEL", Target(model=MODELS[0]))], 7)

    active.refresh = refresh
    run_on_jumping_clock(active, (Unit(), MODELS[1], "short"))
    assert active.revision == 7
    with pytest.raises(Suspended, match="maintenance"):
        run_on_jumping_clock(active, (Unit(), MODELS[0], "short"))


def test_a_suspension_is_unconfirmed_until_all_nodes_act_by_it():
    one, other = a_suspension("TENANT", Target()), a_suspension("TENANT", Target(), tenant=GLOBEX)
    assert not load([]).has_unconfirmed
    assert not load([replace(one, effective_at=1)]).has_unconfirmed
    assert load([replace(one, effective_at=1), other]).has_unconfirmed


@given(st.sampled_from(SCOPES).flatmap(lambda scope: st.tuples(TARGETS[scope], TARGETS[scope])))
def test_the_text_of_a_target_tells_it_from_the_others_of_its_scope(targets: tuple[Target, Target]):
    one, other = targets
    assert (describe_target(one) == describe_target(other)) == (one == other)


def test_timers_of_single_entities_are_not_listed():
    entity = a_suspension("ENTITY", Target(id="e-1"))
    assert list_held_timers([entity]).tenants == []
