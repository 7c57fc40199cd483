"""The law of explanations: what is said of a transition is what a run does with it
(docs/reference/operations.md#explain). Runs are those of simulations: the engine itself, in memory.
"""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from statewright.engine.explanation import (
    Explanation,
    FunctionAnswer,
    Situation,
    TransitionOutlook,
    explain_entity,
    hold_transitions,
    list_asked,
    list_needed_tags,
)
from statewright.engine.models import DocumentRules, Model
from statewright.engine.simulation import Fire, Loopback, Scenario, SimulationLimits, Stubs, simulate
from statewright.entity import Actor, Arming, Entity, ModelKey, Principal, ScheduledTask, TaskKey
from statewright.ids import EntityId, TenantId, TransactionId, model_id
from statewright.jsonval.codec import encode
from statewright.schema import compile_validator, flatten_fields, infer
from statewright.workflow import DEFAULT_WORKFLOW, Workflow, read_import
from tests.builders import Json, a_processor, a_workflow, automated, judged_by, manual, when

ACME = TenantId("acme")
ALICE = Actor("alice", "user")
KEY = ModelKey("prize", 1)
ID = model_id("prize", 1)
DOCUMENT = {"year": 2024, "category": "physics"}
NOW = 1_700_000_000_000_000
VERSION = TransactionId("00000000-0000-1000-8000-000000000001")
RUN = TransactionId("00000000-0000-1000-8000-000000000002")

HOLDS = when("$.year", "EQUALS", 2024)
FAILS = when("$.category", "EQUALS", "peace")
ASKED = judged_by("is-complete", tags="judge")


def a_model(*workflows: Json) -> Model:
    schema = infer(DOCUMENT)
    return Model(
        key=KEY,
        id=ID,
        declared=flatten_fields(schema),
        documents=DocumentRules(model=ID, key=KEY, schema=schema, validate=compile_validator(schema)),
        workflows=read_import({"workflows": list(workflows)}).workflows,
        workflows_revision=1,
    )


def an_entity(state: str = "HERE", *, workflow: str = "lifecycle") -> Entity:
    return Entity(
        tenant=ACME,
        id=EntityId("00000000-0000-1000-8000-0000000000e1"),
        model=ID,
        state=state,
        transaction_id=VERSION,
        entry_transaction_id=VERSION,
        created_at=NOW - 10_000_000,
        updated_at=NOW - 5_000_000,
        transition="loopback",
        workflow=workflow,
        attributed=ALICE,
        executor=ALICE,
        document=encode(DOCUMENT).decode(),
    )


def explain(
    model: Model,
    entity: Entity | None = None,
    *,
    members: int | None = 1,
    timers: Sequence[ScheduledTask] | None = (),
    answers: Mapping[str, FunctionAnswer] | None = None,
) -> Explanation:
    entity = entity or an_entity()
    counts = None if members is None else dict.fromkeys(list_needed_tags(model, entity), members)
    return explain_entity(
        Situation(
            model=model,
            entity=entity,
            document=DOCUMENT,
            now=NOW,
            transaction=RUN,
            timers=timers,
            member_counts=counts,
            answers=answers or {},
        )
    )


def explain_one(transition: Json, **situation: object) -> TransitionOutlook:
    """What is said of the only transition out of a state."""
    model = a_model(a_workflow(HERE=[transition], THERE=[]))
    [outlook] = explain(model, **situation).transitions  # type: ignore[arg-type]
    return outlook


def move(model: Model, event: Fire | Loopback, *, asked: bool = True) -> str | None:
    """The first transition that an event leads the entity along, None where it stays."""
    scenario = Scenario(
        start=an_entity(),
        events=[event],
        stubs=Stubs(criteria={"is-complete": [asked]}),
        principal=Principal(id="alice", name="Alice", kind="user", tenant=ACME),
        at=NOW,
    )
    path = simulate(model, scenario, SimulationLimits()).path
    return path[0].transition if path else None


criteria = st.recursive(
    st.sampled_from([HOLDS, FAILS]),
    lambda inner: st.builds(
        lambda operator, conditions: {"type": "group", "operator": operator, "conditions": conditions},
        st.sampled_from(["AND", "OR"]),
        st.lists(inner, min_size=1, max_size=2),
    ),
    max_leaves=3,
)


@st.composite
def lists_of_transitions(draw: st.DrawFn) -> list[Json]:
    """All of one state, each to one of its own."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        members: Json = {"disabled": True} if draw(st.integers(0, 5)) == 0 else {}
        criterion = draw(st.none() | criteria | st.just(ASKED))
        if criterion is not None:
            members["criterion"] = criterion
        found.append(draw(st.sampled_from([manual, automated]))(f"T{number}", to=f"S{number}", **members))
    return found


@settings(max_examples=60)
@given(lists_of_transitions(), st.booleans())
def test_what_is_said_of_a_transition_is_what_a_run_does(transitions: list[Json], matches: bool):
    model = a_model(a_workflow(version="1.0", HERE=transitions, **{f"S{n}": [] for n in range(len(transitions))}))
    answered = {each["name"]: FunctionAnswer(matches=matches) for each in transitions}

    explained = explain(model, answers=answered)

    fired = move(model, Loopback(), asked=matches)
    automatic = [each for each in explained.transitions if each.kind == "AUTOMATED"]
    assert [each.name for each in automatic if each.would_fire] == ([] if fired is None else [fired])
    assert (explained.verdict == "READY") == (fired is not None)
    for each in explained.transitions:
        if each.kind == "MANUAL":
            assert each.would_fire == (move(model, Fire(each.name), asked=matches) == each.name)


@given(lists_of_transitions())
def test_where_members_were_not_asked_nothing_is_claimed_that_an_answer_would_refute(transitions: list[Json]):
    model = a_model(a_workflow(version="1.0", HERE=transitions, **{f"S{n}": [] for n in range(len(transitions))}))
    names = [each["name"] for each in transitions]

    unasked = explain(model).transitions

    for matches in (True, False):
        asked = explain(model, answers={name: FunctionAnswer(matches=matches) for name in names}).transitions
        for before, after in zip(unasked, asked, strict=True):
            assert before.would_fire in {None, after.would_fire}, (before, after)


@given(lists_of_transitions(), st.none() | st.sets(st.sampled_from(["T0", "T1", "T9"])))
def test_a_suspension_stops_those_it_names_and_changes_no_other(transitions: list[Json], names: set[str] | None):
    model = a_model(a_workflow(version="1.0", HERE=transitions, **{f"S{n}": [] for n in range(len(transitions))}))
    explained = explain(model)

    held = hold_transitions(explained, names)

    for before, after in zip(explained.transitions, held.transitions, strict=True):
        if names is None or before.name in names:
            blocks = (*before.blocked_by, "SUSPENDED")
            assert after == replace(before, would_fire=False, blocked_by=blocks)
        else:
            assert after == before
    assert replace(held, transitions=()) == replace(explained, transitions=())


def a_timer(fire_at_ms: int, timeout_ms: int | None = None, *, transition: str = "LAPSE") -> ScheduledTask:
    return ScheduledTask(
        tenant=ACME,
        entity=an_entity().id,
        key=TaskKey("HERE", transition),
        arming=Arming(model=ID, fire_at=fire_at_ms, timeout_ms=timeout_ms, armed_at=1, principal=ALICE),
        armed_in=VERSION,
        attempts=0,
    )


LAPSE = {**automated("LAPSE", to="THERE"), "schedule": {"delayMs": 1000}}
NOW_MS = NOW // 1000


@pytest.mark.parametrize(
    ("timers", "blocked_by", "would_fire"),
    [
        ([a_timer(NOW_MS)], (), True),
        ([a_timer(NOW_MS - 5000)], (), True),
        ([a_timer(NOW_MS - 5000, 5000)], (), True),
        ([a_timer(NOW_MS - 5000, 4999)], ("NOT_DUE",), False),
        ([a_timer(NOW_MS + 1)], ("NOT_DUE",), False),
        ([], ("NOT_DUE",), False),
        ([a_timer(NOW_MS, transition="OTHER")], ("NOT_DUE",), False),
        (None, ("UNKNOWN",), None),
    ],
)
def test_a_scheduled_transition_waits_for_its_timer_and_its_tolerance(
    timers: list[ScheduledTask] | None, blocked_by: tuple[str, ...], would_fire: bool | None
):
    outlook = explain_one(LAPSE, timers=timers)
    assert (outlook.kind, outlook.blocked_by, outlook.would_fire) == ("SCHEDULED", blocked_by, would_fire)


@pytest.mark.parametrize(
    ("answer", "members", "blocked_by", "would_fire"),
    [
        (None, 1, ("UNKNOWN",), None),
        (None, 0, ("NO_MEMBER",), False),
        (None, None, ("UNKNOWN",), None),
        (FunctionAnswer(matches=True), 1, (), True),
        (FunctionAnswer(matches=False, reason="too young"), 1, ("CRITERION",), False),
        (FunctionAnswer(error="busy"), 1, ("UNKNOWN",), None),
        (FunctionAnswer(matches=True), 0, ("NO_MEMBER",), False),
    ],
)
def test_a_criterion_of_a_member_counts_by_what_the_member_said(
    answer: FunctionAnswer | None, members: int | None, blocked_by: tuple[str, ...], would_fire: bool | None
):
    asked = manual("ASK", to="THERE", criterion=ASKED)
    outlook = explain_one(asked, members=members, answers={} if answer is None else {"ASK": answer})
    assert (outlook.blocked_by, outlook.would_fire) == (blocked_by, would_fire)
    assert outlook.criterion is not None
    assert outlook.criterion.get("members") == members
    assert (outlook.criterion["name"], outlook.criterion["tags"]) == ("is-complete", ["judge"])
    if answer is not None and members:
        told = {name: outlook.criterion.get(name) for name in ("result", "reason", "error")}
        assert told == {"result": answer.matches, "reason": answer.reason, "error": answer.error}


@pytest.mark.parametrize(
    ("mode", "members", "blocked_by"),
    [
        ("SYNC", 0, ("NO_MEMBER",)),
        ("ASYNC_SAME_TX", 0, ("NO_MEMBER",)),
        ("COMMIT_BEFORE_DISPATCH", 0, ("NO_MEMBER",)),
        ("ASYNC_NEW_TX", 0, ()),
        ("SYNC", 1, ()),
        ("SYNC", None, ()),
    ],
)
def test_only_a_processor_whose_failure_a_run_survives_needs_no_member(
    mode: str, members: int | None, blocked_by: tuple[str, ...]
):
    outlook = explain_one(manual("GO", to="THERE", processors=[a_processor(mode=mode)]), members=members)
    assert outlook.blocked_by == blocked_by
    assert [(each.name, each.mode, each.tags, each.members) for each in outlook.processors] == [
        ("enrich", mode, ("node",), members)
    ]


VERDICTS: list[tuple[str, list[Json], str]] = [
    ("TERMINAL", [], "Nothing leads out of HERE."),
    ("TERMINAL", [manual("OFF", to="THERE", disabled=True)], "Nothing leads out of HERE."),
    ("READY", [automated("GO", to="THERE", criterion=HOLDS)], "A save without a transition would fire GO."),
    (
        "WAITS_FOR_WORKER",
        [automated("GO", to="THERE", processors=[a_processor("post")])],
        "GO needs a calculation member, and none with its tags is connected.",
    ),
    ("WAITS_FOR_TIMER", [LAPSE], "Waits for the time of LAPSE."),
    ("WAITS_FOR_CRITERION", [automated("GO", to="THERE", criterion=FAILS)], "No automated transition out of HERE"),
    ("WAITS_FOR_MANUAL", [manual("GO", to="THERE")], "GO"),
    (
        "WAITS_FOR_CRITERION",
        [automated("GO", to="THERE", criterion=FAILS, processors=[a_processor()])],
        "No automated transition out of HERE",
    ),
]


@pytest.mark.parametrize(("verdict", "transitions", "says"), VERDICTS)
def test_the_verdict_is_what_the_entity_waits_for(verdict: str, transitions: list[Json], says: str):
    model = a_model(a_workflow(HERE=transitions, THERE=[]))
    explained = explain(model, members=0, timers=[a_timer(NOW_MS + 1)])
    assert (explained.verdict, explained.rule) == (verdict, "REMEMBERED")
    assert says in explained.summary


@pytest.mark.parametrize(
    ("state", "remembered", "found", "rule", "passed_over"),
    [
        ("HERE", "second", "second", "REMEMBERED", ()),
        ("HERE", "resting", "first", "FIRST_WITH_STATE", ()),
        ("HERE", "gone", "first", "FIRST_WITH_STATE", ()),
        ("AWAY", "second", None, "NONE", ()),
        ("CREATED", DEFAULT_WORKFLOW.name, DEFAULT_WORKFLOW.name, "DEFAULT", ("first", "second")),
    ],
)
def test_the_rule_says_how_the_governing_workflow_was_found(
    state: str, remembered: str, found: str | None, rule: str, passed_over: tuple[str, ...]
):
    resting = a_workflow("resting", HERE=[], active=False)
    model = a_model(a_workflow("first", HERE=[]), a_workflow("second", HERE=[]), resting)
    explained = explain(model, an_entity(state, workflow=remembered))
    assert (explained.workflow, explained.rule, explained.passed_over) == (found, rule, passed_over)
    if rule == "NONE":
        assert explained.verdict == "STATE_UNKNOWN"
        assert explained.summary.startswith("No active workflow of the model has the state AWAY")


def test_the_tags_that_are_needed_are_those_of_criteria_and_processors_of_the_state():
    here = [
        manual("A", to="THERE", criterion=ASKED, processors=[a_processor(tags="node,eu")]),
        automated("B", to="THERE", criterion=HOLDS, processors=[a_processor(tags="node,eu")]),
    ]
    model = a_model(a_workflow(HERE=here, THERE=[manual("C", to="HERE", processors=[a_processor(tags="other")])]))
    assert list_needed_tags(model, an_entity()) == {("judge",), ("node", "eu")}
    assert list_needed_tags(model, an_entity("AWAY")) == frozenset()


def test_members_are_asked_of_transitions_that_can_be_taken():
    here = [
        manual("A", to="HERE", criterion=ASKED),
        manual("B", to="HERE", criterion=ASKED, disabled=True),
        manual("C", to="HERE", criterion=HOLDS),
    ]
    model = a_model(a_workflow(HERE=here))
    workflow, asked = list_asked(model, an_entity())
    assert isinstance(workflow, Workflow)
    assert (workflow.name, [each.name for each in asked]) == ("lifecycle", ["A"])
    assert list_asked(model, an_entity("AWAY")) == (None, ())
