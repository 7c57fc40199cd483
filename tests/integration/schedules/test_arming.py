"""When a run settles, its state's scheduled transitions are armed, all others withdrawn
(docs/reference/workflows.md#arming).
"""

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, a_processor, a_workflow, automated, manual
from tests.integration.schedules.conftest import HOUR_MS, all_events, now_ms, of_type, scheduled
from tests.service import names, refused

LAPSING = a_workflow(
    Booked=[scheduled("lapse", to="Lapsed"), manual("ship", to="Shipped"), manual("touch", to="Booked")],
    Lapsed=[],
    Shipped=[scheduled("lose", to="Lost", delay_ms=2 * HOUR_MS)],
    Lost=[],
)


def test_a_create_arms_the_scheduled_transitions_of_the_state_it_settles_in(api, timers):
    before = now_ms()
    created = api.create(model=api.a_model(LAPSING))
    [task] = timers.of(created.id)
    assert (task["state"], task["transition"], task["timeout_ms"]) == ("Booked", "lapse", None)
    assert before <= task["armed_at"] <= now_ms()
    assert task["fire_at"] == task["armed_at"] + HOUR_MS
    assert str(task["armed_in"]) == created.transaction
    assert (task["principal_id"], task["principal_kind"]) == ("alice", "user")
    assert (task["attempts"], task["not_before"]) == (0, 0)


def test_arming_is_on_record_just_before_the_finish(api, timers):
    created = api.create(model=api.a_model(LAPSING))
    events = api.events(created.id, created.transaction)
    assert names(events) == [
        "STATE_MACHINE_START",
        "WORKFLOW_FOUND",
        "SCHEDULED_TRANSITION_ARM",
        "STATE_MACHINE_FINISH",
    ]
    armed = events[2]
    assert armed["details"] == 'Scheduled transition "lapse" armed for 3600000ms from now'
    assert armed["state"] == "Booked"
    assert armed["data"] == {"transition": "lapse", "sourceState": "Booked", "scheduledTime": timers.due(created.id)}


def test_only_the_state_where_the_cascade_ends_is_armed(api, timers):
    flow = a_workflow(
        New=[scheduled("never", to="New2"), automated("take", to="Taken")],
        New2=[],
        Taken=[scheduled("first", to="New2"), scheduled("second", to="New2", delay_ms=5, timeout_ms=0)],
    )
    created = api.create(model=api.a_model(flow))
    assert [(task["transition"], task["timeout_ms"]) for task in timers.of(created.id)] == [
        ("first", None),
        ("second", 0),
    ]
    armed = of_type(api.events(created.id, created.transaction), "SCHEDULED_TRANSITION_ARM")
    assert [event["data"]["transition"] for event in armed] == ["first", "second"]


def test_a_disabled_scheduled_transition_is_not_armed(api, timers):
    flow = a_workflow(New=[scheduled("lapse", to="Lapsed", disabled=True)], Lapsed=[])
    assert timers.of(api.create(model=api.a_model(flow)).id) == []


def test_a_delay_longer_than_any_calendar_is_armed_for_the_end_of_time(api, timers):
    flow = a_workflow(New=[scheduled("lapse", to="Lapsed", delay_ms=2**63 - 1)], Lapsed=[])
    assert timers.due(api.create(model=api.a_model(flow)).id) == 2**63 - 1


@pytest.mark.parametrize("fire", ["", "touch"])
def test_every_write_that_stays_in_the_state_pushes_the_timer_forward(api, timers, fire):
    entity = api.create(model=api.a_model(LAPSING)).id
    timers.sql("UPDATE scheduled_task SET fire_at = 1, not_before = 2, attempts = 3, timeout_ms = 4")
    before = now_ms()
    written = api.update(entity, fire=fire)
    [task] = timers.of(entity)
    assert task["fire_at"] >= before + HOUR_MS
    assert (task["not_before"], task["attempts"], task["timeout_ms"]) == (0, 0, None)
    assert str(task["armed_in"]) == written.transaction
    kinds = [kind for kind in names(api.events(entity, written.transaction)) if kind.startswith("SCHEDULED")]
    assert kinds == ["SCHEDULED_TRANSITION_ARM"]


def test_leaving_the_state_withdraws_its_tasks_after_arming_those_of_the_new_one(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    shipped = api.update(entity, fire="ship")
    assert [(task["state"], task["transition"]) for task in timers.of(entity)] == [("Shipped", "lose")]
    events = api.events(entity, shipped.transaction)
    assert names(events)[-3:] == [
        "SCHEDULED_TRANSITION_ARM",
        "SCHEDULED_TRANSITION_CANCEL",
        "STATE_MACHINE_FINISH",
    ]
    cancelled = events[-2]
    assert cancelled["details"] == 'Scheduled transition "lapse" cancelled (left state "Booked")'
    assert (cancelled["state"], cancelled["data"]) == ("Booked", {"transition": "lapse", "sourceState": "Booked"})


def test_a_workflow_without_schedules_withdraws_nothing(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    api.import_workflows(a_workflow(Booked=[manual("ship", to="Shipped")], Shipped=[]))
    shipped = api.update(entity, fire="ship")
    assert [task["transition"] for task in timers.of(entity)] == ["lapse"]
    assert "SCHEDULED_TRANSITION_CANCEL" not in names(api.events(entity, shipped.transaction))


def test_a_loopback_in_a_state_of_no_workflow_leaves_the_task_alone(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    before = timers.of(entity)
    api.import_workflows(a_workflow(Elsewhere=[scheduled("lapse", to="Elsewhere2")], Elsewhere2=[]))
    api.update(entity)
    assert timers.of(entity) == before


def test_a_failed_write_leaves_the_task_as_it_was(api, timers):
    flow = a_workflow(
        New=[
            scheduled("lapse", to="Lapsed"),
            manual("go", to="Done", processors=[a_processor(tags="nobody")]),
        ],
        Lapsed=[],
        Done=[],
    )
    entity = api.create(model=api.a_model(flow)).id
    before = timers.of(entity)
    refused(api.put(f"/entity/JSON/{entity}/go", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert timers.of(entity) == before


def test_deleting_an_entity_leaves_its_task_to_be_dropped_in_silence(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    due = timers.due(entity)
    api.delete(f"/entity/{entity}")
    events = all_events(api, entity)
    assert timers.scan(at=due) == 1
    assert timers.of(entity) == []
    assert all_events(api, entity) == events


def test_a_scheduled_transition_cannot_be_fired_by_name(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    problem = refused(api.put(f"/entity/JSON/{entity}/lapse", SAMPLE), 404, "TRANSITION_NOT_FOUND")
    assert "is scheduled and fires automatically" in problem["detail"]


def test_tasks_of_a_failed_owner_are_undone_with_the_entities_its_callback_created(api, serving, callback, timers):
    api.a_model(LAPSING, model="parcel/1")
    node, parcels = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        parcels.append(callback(context).create(SAMPLE, model="parcel/1").id)
        raise ValueError("no luck")

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    refused(api.post(f"/entity/JSON/{model}", SAMPLE), 400, "WORKFLOW_FAILED")
    assert timers.of(parcels[0]) == []


def test_a_joined_callback_arms_in_the_transaction_for_its_origin(api, serving, callback, timers):
    api.a_model(LAPSING, model="parcel/1")
    node, seen = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        seen["moved"] = joined.create(SAMPLE, model="parcel/1").id
        joined.update(seen["moved"], fire="ship")
        seen["stays"] = joined.create(SAMPLE, model="parcel/1").id
        seen["inside"] = timers.of(seen["stays"])

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    owner = api.create(model=model)
    assert seen["inside"] == []
    [stays], [moved] = timers.of(seen["stays"]), timers.of(seen["moved"])
    assert (stays["transition"], str(stays["armed_in"])) == ("lapse", owner.transaction)
    assert (stays["principal_id"], stays["principal_kind"]) == ("alice", "user")
    assert moved["transition"] == "lose"
    cancelled = of_type(api.events(seen["moved"], owner.transaction), "SCHEDULED_TRANSITION_CANCEL")
    assert [event["data"]["transition"] for event in cancelled] == ["lapse"]


def test_a_dropped_savepoint_leaves_the_task_of_the_entity_it_moved(api, serving, callback, timers):
    api.a_model(LAPSING, model="parcel/1")
    parcel = api.create(SAMPLE, model="parcel/1").id
    before = timers.of(parcel)
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document, context):
        callback(context).update(parcel, fire="ship")
        raise ValueError("no luck")

    serving(node)
    flow = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(mode="ASYNC_NEW_TX")])], DONE=[])
    owner = api.create(model=api.a_model(flow))
    assert api.state(owner.id) == "DONE"
    assert api.state(parcel) == "Booked"
    assert timers.of(parcel) == before


def test_an_entity_that_moves_twice_in_one_transaction_keeps_only_the_tasks_of_its_last_state(
    api, serving, callback, timers
):
    flow = a_workflow(
        Booked=[scheduled("lapse", to="Lapsed"), manual("ship", to="Shipped")],
        Lapsed=[],
        Shipped=[scheduled("lose", to="Lapsed"), manual("back", to="Booked")],
    )
    api.a_model(flow, model="parcel/1")
    parcel = api.create(SAMPLE, model="parcel/1").id
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        joined.update(parcel, fire="ship")
        joined.update(parcel, fire="back")

    serving(node)
    owner = api.create(
        model=api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    )
    [task] = timers.of(parcel)
    assert (task["transition"], str(task["armed_in"])) == ("lapse", owner.transaction)
    kinds = [kind for kind in names(api.events(parcel, owner.transaction)) if kind.startswith("SCHEDULED")]
    assert kinds == ["SCHEDULED_TRANSITION_ARM", "SCHEDULED_TRANSITION_CANCEL"] * 2


def test_the_segment_before_a_callout_leaves_the_task_in_place(api, serving, timers):
    node, seen = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        seen["during"] = timers.of(context.entity_id)

    serving(node)
    flow = a_workflow(
        New=[
            scheduled("lapse", to="Lapsed"),
            manual("go", to="Done", processors=[a_processor(mode="COMMIT_BEFORE_DISPATCH")]),
        ],
        Lapsed=[],
        Done=[],
    )
    entity = api.create(model=api.a_model(flow)).id
    before = timers.of(entity)
    fired = api.update(entity, fire="go")
    assert seen["during"] == before
    assert timers.of(entity) == []
    assert "SCHEDULED_TRANSITION_CANCEL" in names(api.events(entity, fired.transaction))
