"""The two decisions about scheduled transitions as pure functions (docs/reference/workflows.md#arming,
docs/reference/workflows.md#schedule-functions, docs/reference/workflows.md#firing).
"""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from statewright.compute.callout import CalloutResult
from statewright.engine.models import DocumentRules, Model
from statewright.engine.schedules import (
    MAX_INSTANT_MS,
    BornExpired,
    Due,
    ExpireTask,
    FireTask,
    KeepTask,
    RemoveTask,
    compute_delay_timing,
    decide_task,
    parse_timing,
    reconcile_tasks,
)
from statewright.entity import Actor, Arming, Entity, ModelKey, ScheduledTask, TaskKey
from statewright.failures import ScheduleFunctionInvalidResult
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.jsonval.values import JsonValue
from statewright.schema import infer
from statewright.workflow import Schedule, State, Transition, Workflow
from statewright.workflow.definition import Contract

NOW = 1_000_000
MODEL = ModelId("00000000-0000-5000-8000-000000000000")
ARMED = TransactionId("00000000-0000-1000-8000-000000000001")
ALICE = Actor("alice", "user")

instants = st.integers(-(2**70), 2**70)


def answered(result: JsonValue, *, kind: str | None = "Schedule", now: int = NOW) -> Due | BornExpired:
    return parse_timing("when", CalloutResult(success=True, result=result, result_kind=kind), now)


@pytest.mark.parametrize(
    ("result", "timing"),
    [
        ({"fireAt": 5}, Due(fire_at=5)),
        ({"fireAfterMs": 5}, Due(fire_at=NOW + 5)),
        ({"fireAfterMs": -5}, Due(fire_at=NOW - 5)),
        ({"fireAt": 5, "fireAfterMs": None, "expireAt": None}, Due(fire_at=5)),
        ({"fireAt": 5, "expireAt": 6}, Due(fire_at=5, timeout_ms=1)),
        ({"fireAfterMs": 5, "expireAt": NOW + 7}, Due(fire_at=NOW + 5, timeout_ms=2)),
        ({"fireAfterMs": 5, "expireAfterMs": 7}, Due(fire_at=NOW + 5, timeout_ms=7)),
        ({"fireAt": 5, "expireAt": 5}, BornExpired(fire_at=5, expire_at=5)),
        ({"fireAt": 5, "expireAfterMs": 0}, BornExpired(fire_at=5, expire_at=5)),
        ({"fireAfterMs": 5, "expireAfterMs": -1}, BornExpired(fire_at=NOW + 5, expire_at=NOW + 4)),
        ({"fireAt": 10**30}, Due(fire_at=MAX_INSTANT_MS)),
    ],
    ids=str,
)
def test_a_result_gives_a_time_and_a_tolerance(result, timing):
    assert answered(result) == timing


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({}, "neither fireAt nor fireAfterMs is given"),
        ({"expireAt": 9}, "neither fireAt nor fireAfterMs is given"),
        ({"fireAt": 1, "fireAfterMs": 1}, "fireAt and fireAfterMs exclude each other"),
        ({"fireAt": 1, "expireAt": 2, "expireAfterMs": 1}, "expireAt and expireAfterMs exclude each other"),
        ({"fireAt": Decimal("1.0")}, "fireAt is not an integer"),
        ({"fireAt": True}, "fireAt is not an integer"),
        ({"fireAt": "1"}, "fireAt is not an integer"),
        ({"fireAt": 1, "z": 1, "a": None}, "unknown fields: a, z"),
        ([], "the result is not an object"),
        (None, "the result is not an object"),
    ],
    ids=str,
)
def test_a_malformed_result_is_refused_with_the_reason(result, reason):
    with pytest.raises(ScheduleFunctionInvalidResult, match=f"schedule function when: {reason}"):
        answered(result)


@pytest.mark.parametrize("kind", [None, "", "schedule", "Delay"])
def test_a_result_of_another_kind_is_refused(kind):
    with pytest.raises(ScheduleFunctionInvalidResult, match="resultKind"):
        answered({"fireAt": 1}, kind=kind)


@given(
    result=st.one_of(
        st.fixed_dictionaries({"fireAt": instants}, optional={"expireAt": instants}),
        st.fixed_dictionaries({"fireAfterMs": instants}, optional={"expireAfterMs": instants}),
    ),
    now=st.integers(0, 2**45),
)
def test_whatever_is_armed_fits_into_storage_and_has_a_positive_tolerance(result, now):
    timing = answered(result, now=now)
    if isinstance(timing, Due):
        assert -MAX_INSTANT_MS <= timing.fire_at <= MAX_INSTANT_MS
        assert timing.timeout_ms is None or 0 < timing.timeout_ms <= MAX_INSTANT_MS
    else:
        assert timing.expire_at <= timing.fire_at


def test_a_delay_counts_from_now_and_keeps_its_tolerance():
    assert compute_delay_timing(Schedule(delay_ms=5, timeout_ms=0), NOW) == Due(fire_at=NOW + 5, timeout_ms=0)
    assert compute_delay_timing(Schedule(delay_ms=MAX_INSTANT_MS), NOW) == Due(fire_at=MAX_INSTANT_MS)


def test_due_transitions_are_armed_and_tasks_of_other_states_withdrawn():
    here, there = TaskKey("HERE", "lapse"), TaskKey("THERE", "lose")
    decided = reconcile_tasks("HERE", {"lapse": Due(fire_at=NOW + 5)}, {here: ARMED, there: None}, NOW)
    assert decided.arm == {here: Due(fire_at=NOW + 5)}
    assert decided.withdraw == {there: None}
    assert [event.details for event in decided.events] == [
        'Scheduled transition "lapse" armed for 5ms from now',
        'Scheduled transition "lose" cancelled (left state "THERE")',
    ]


def test_a_task_of_the_settled_state_that_nothing_asks_for_any_more_is_left_to_its_time():
    decided = reconcile_tasks("HERE", {}, {TaskKey("HERE", "renamed"): ARMED}, NOW)
    assert (decided.arm, decided.withdraw, decided.events) == ({}, {}, ())


def test_what_is_born_expired_is_withdrawn_if_there_is_such_a_task_and_on_record_last():
    key, there = TaskKey("HERE", "lapse"), TaskKey("THERE", "lose")
    expired = {"lapse": BornExpired(fire_at=9, expire_at=8)}
    assert reconcile_tasks("HERE", expired, {}, NOW).withdraw == {}
    decided = reconcile_tasks("HERE", expired, {key: ARMED, there: ARMED}, NOW)
    assert decided.withdraw == {key: ARMED, there: ARMED}
    assert [event.type for event in decided.events] == ["SCHEDULED_TRANSITION_CANCEL", "SCHEDULED_TRANSITION_EXPIRE"]


@given(
    timings=st.dictionaries(
        st.sampled_from("abc"), st.sampled_from([Due(fire_at=1), BornExpired(fire_at=1, expire_at=0)])
    ),
    tasks=st.dictionaries(
        st.builds(TaskKey, st.sampled_from(["HERE", "THERE"]), st.sampled_from("abc")), st.sampled_from([ARMED, None])
    ),
)
def test_after_reconciling_only_the_settled_state_has_tasks_and_all_that_are_due(timings, tasks):
    decided = reconcile_tasks("HERE", timings, tasks, NOW)
    left = (tasks.keys() - decided.withdraw.keys()) | decided.arm.keys()
    assert {key.state for key in left} <= {"HERE"}
    assert {key.transition for key in decided.arm} == {n for n, timing in timings.items() if isinstance(timing, Due)}
    assert not decided.withdraw.keys() & decided.arm.keys()
    assert decided.withdraw.items() <= tasks.items()


LAPSE = Transition(name="lapse", next="DONE", schedule=Schedule(delay_ms=1))


def a_model(*transitions: Transition, active: bool = True) -> Model:
    workflow = Workflow(
        version="1.3",
        contract=Contract.STRICT,
        name="flow",
        initial_state="WAITING",
        active=active,
        states={"WAITING": State(name="WAITING", transitions=transitions), "DONE": State(name="DONE")},
    )
    return Model(
        key=ModelKey("parcel", 1),
        id=MODEL,
        declared={},
        documents=DocumentRules(
            model=MODEL,
            key=ModelKey("parcel", 1),
            schema=infer({}),
            validate=lambda _document: (),
            unique_keys=(),
        ),
        workflows=(workflow,),
        workflows_revision=1,
    )


def an_entity(state: str = "WAITING") -> Entity:
    return Entity(
        tenant=TenantId("acme"),
        id=EntityId("e"),
        model=MODEL,
        state=state,
        transaction_id=ARMED,
        entry_transaction_id=ARMED,
        created_at=1,
        updated_at=1,
        transition="loopback",
        workflow="flow",
        attributed=ALICE,
        executor=ALICE,
        document="{}",
    )


def a_task(timeout: int | None = None) -> ScheduledTask:
    return ScheduledTask(
        tenant=TenantId("acme"),
        entity=EntityId("e"),
        key=TaskKey("WAITING", "lapse"),
        arming=Arming(model=MODEL, fire_at=NOW, timeout_ms=timeout, armed_at=1, principal=ALICE),
        armed_in=ARMED,
        attempts=1,
    )


WAITING, HERE = an_entity(), a_model(LAPSE)


@pytest.mark.parametrize(
    ("timeout", "lateness", "outcome"),
    [
        (None, -1, KeepTask),
        (None, 0, FireTask),
        (None, 10**12, FireTask),
        (0, 0, FireTask),
        (0, 1, KeepTask),
        (0, 100, KeepTask),
        (0, 101, ExpireTask),
        (50, 50, FireTask),
        (50, 51, KeepTask),
        (50, 150, KeepTask),
        (50, 151, ExpireTask),
        (-5, 0, KeepTask),
        (-5, 96, ExpireTask),
    ],
)
def test_lateness_decides_between_firing_waiting_and_expiry(timeout, lateness, outcome):
    assert isinstance(decide_task(a_task(timeout), WAITING, HERE, now=NOW + lateness, grace_ms=100), outcome)


def test_an_expiry_tells_the_numbers_it_is_decided_by():
    expiry = decide_task(a_task(50), WAITING, HERE, now=NOW + 200, grace_ms=100)
    assert isinstance(expiry, ExpireTask)
    assert expiry.event.details == (
        'Scheduled transition "lapse" expired (lateness 200ms > timeout 50ms + grace 100ms)'
    )


@pytest.mark.parametrize(
    ("entity", "model"),
    [
        (None, None),
        (an_entity("DONE"), HERE),
        (WAITING, replace(HERE, workflows=())),
        (WAITING, a_model()),
        (WAITING, a_model(replace(LAPSE, disabled=True))),
        (WAITING, a_model(replace(LAPSE, schedule=None))),
        (WAITING, a_model(LAPSE, active=False)),
    ],
    ids=["no entity", "moved on", "no workflows", "no transition", "disabled", "not scheduled", "inactive"],
)
def test_a_task_without_meaning_is_removed_however_late_it_is(entity, model):
    for late in (0, 10**6):
        assert decide_task(a_task(0), entity, model, now=NOW + late, grace_ms=100) == RemoveTask()


def test_a_task_that_was_armed_for_later_is_kept_whatever_became_of_its_workflow():
    assert decide_task(a_task(), WAITING, a_model(), now=NOW - 1, grace_ms=100) == KeepTask()
