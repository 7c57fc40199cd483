"""What becomes of a task whose time has come (docs/reference/workflows.md#firing)."""

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, a_processor, a_workflow, automated, judged_by, manual, when
from tests.integration.node import a_node
from tests.integration.schedules.conftest import HOUR_MS, all_events, import_cyclic, of_type, scheduled
from tests.service import done, names

LAPSING = a_workflow(Booked=[scheduled("lapse", to="Lapsed"), manual("ship", to="Shipped")], Lapsed=[], Shipped=[])


def changes(api, entity):
    return done(api.get(f"/entity/{entity}/changes"))


def trail_of_last_write(api, entity):
    return api.events(entity, api.read(entity)["meta"]["transactionId"])


def trail_after(api, created):
    """The events of an entity, oldest first, without those of its creation."""
    return [event for event in all_events(api, created.id) if event["transactionId"] != created.transaction]


def test_nothing_fires_before_its_time(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    assert timers.scan(at=timers.due(entity) - 1) == 0
    assert api.state(entity) == "Booked"


def test_a_due_transition_is_taken_and_its_task_is_gone(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    assert timers.scan(at=timers.due(entity)) == 1
    assert api.state(entity) == "Lapsed"
    assert timers.of(entity) == []


def test_a_fire_records_its_steps_and_neither_start_nor_finish(api, serving, timers):
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | {"motivation": "late"})
    serving(node)
    flow = a_workflow(
        Booked=[
            scheduled("lapse", to="Lapsed", processors=[a_processor()]),
            scheduled("remind", to="Reminded", delay_ms=2 * HOUR_MS),
        ],
        Lapsed=[automated("file", to="Filed")],
        Filed=[scheduled("shred", to="Shredded")],
        Shredded=[],
        Reminded=[],
    )
    entity = api.create(model=api.a_model(flow)).id
    [lapse, _] = timers.of(entity)
    timers.scan(at=lapse["fire_at"])
    assert api.read(entity)["data"]["motivation"] == "late"
    events = trail_of_last_write(api, entity)
    assert [(event["eventType"], event["details"], event.get("state")) for event in events] == [
        ("PAUSE_FOR_PROCESSING", "Paused for processors: [enrich]", "Booked"),
        ("STATE_PROCESS_RESULT", 'Processor "enrich" completed', "Booked"),
        ("TRANSITION_MAKE", 'Transition "lapse": Booked → Lapsed', "Booked"),
        ("TRANSITION_MAKE", 'Transition "file": Lapsed → Filed', "Lapsed"),
        ("SCHEDULED_TRANSITION_ARM", 'Scheduled transition "shred" armed for 3600000ms from now', "Filed"),
        ("SCHEDULED_TRANSITION_CANCEL", 'Scheduled transition "remind" cancelled (left state "Booked")', "Booked"),
        ("SCHEDULED_TRANSITION_FIRE", 'Scheduled transition "lapse" fired', "Filed"),
    ]
    assert events[-1]["data"] is None
    assert [task["transition"] for task in timers.of(entity)] == ["shred"]


def test_a_fire_is_executed_by_the_system_for_whoever_armed_it(service, tenant, timers):
    alice, robot = service.api(tenant), service.api(tenant, "robot", user_roles=None, scopes=["ROLE_M2M"])
    entity = alice.create(model=alice.a_model(LAPSING)).id
    timers.scan(at=timers.due(entity))
    last, first = changes(alice, entity)
    assert (last["user"], last["attributedKind"]) == ("alice", "user")
    assert last["executedBy"] == {"id": "system", "kind": "system"}
    assert last["changeType"] == "UPDATE"
    assert first["executedBy"] == {"id": "alice", "kind": "user"}
    other = robot.create().id
    timers.scan(at=timers.due(other))
    assert (changes(robot, other)[0]["user"], changes(robot, other)[0]["attributedKind"]) == ("robot", "service")


def test_the_transition_a_client_asked_for_last_stays_on_record(api, timers):
    flow = a_workflow(New=[manual("book", to="Booked")], Booked=[scheduled("lapse", to="Lapsed")], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    api.update(entity, fire="book")
    timers.scan(at=timers.due(entity))
    meta = api.read(entity)["meta"]
    assert (meta["state"], meta["transitionForLatestSave"]) == ("Lapsed", "book")


def test_a_criterion_sees_the_transition_a_client_asked_for_last(api, timers):
    asked = {"type": "lifecycle", "field": "previousTransition", "operatorType": "EQUALS", "value": "book"}
    flow = a_workflow(
        New=[manual("book", to="Booked")],
        Booked=[scheduled("lapse", to="Lapsed", criterion=asked)],
        Lapsed=[],
    )
    entity = api.create(model=api.a_model(flow)).id
    api.update(entity, fire="book")
    timers.scan(at=timers.due(entity))
    assert api.state(entity) == "Lapsed"


def test_tasks_armed_by_a_fire_inherit_its_principal(api, timers):
    flow = a_workflow(A=[scheduled("b", to="B")], B=[scheduled("c", to="C")], C=[])
    entity = api.create(model=api.a_model(flow)).id
    timers.scan(at=timers.due(entity))
    [task] = timers.of(entity)
    assert (task["transition"], task["principal_id"], task["principal_kind"]) == ("c", "alice", "user")
    timers.scan(at=task["fire_at"])
    assert api.state(entity) == "C"
    assert changes(api, entity)[0]["user"] == "alice"


def test_members_are_asked_on_behalf_of_the_system(api, service, tenant, timers):
    flow = a_workflow(A=[scheduled("go", to="B", processors=[a_processor(tags="")])], B=[])
    entity = api.create(model=api.a_model(flow)).id
    with a_node(service, tenant) as node:
        at = timers.due(entity)
        scan = timers.begin_scan(at)
        request = node.answer_next()
        scan.result()
    assert (request.attributes["authtype"], request.attributes["authid"]) == ("system", "system")
    assert "authclaims" not in request.attributes
    assert request["transition"]["name"] == "go"
    assert request["payload"]["meta"]["state"] == "A"


def test_a_heartbeat_arms_itself_again_without_a_cancellation(api, timers):
    api.import_model()
    import_cyclic(api, a_workflow(Beating=[scheduled("beat", to="Beating")]))
    api.lock()
    entity = api.create().id
    for _ in range(3):
        due = timers.due(entity)
        assert timers.scan(at=due) == 1
        assert timers.due(entity) == due + HOUR_MS
    assert len(changes(api, entity)) == 4
    assert names(trail_of_last_write(api, entity)) == [
        "TRANSITION_MAKE",
        "SCHEDULED_TRANSITION_ARM",
        "SCHEDULED_TRANSITION_FIRE",
    ]


def test_polling_ticks_until_a_condition_of_another_transition_holds(api, timers):
    api.import_model()
    import_cyclic(
        api,
        a_workflow(
            Waiting=[scheduled("tick", to="Checking")],
            Checking=[
                automated("go", to="Done", criterion=when("$.year", "EQUALS", 2025)),
                automated("wait", to="Waiting"),
            ],
            Done=[],
        ),
    )
    api.lock()
    entity = api.create().id
    timers.scan(at=timers.due(entity))
    assert api.state(entity) == "Waiting"
    api.update(entity, SAMPLE | {"year": 2025})
    timers.scan(at=timers.due(entity))
    assert api.state(entity) == "Done"
    assert timers.of(entity) == []


def test_a_criterion_that_does_not_hold_declines_for_good_without_a_new_version(api, timers):
    criterion = when("$.year", "EQUALS", 1999)
    flow = a_workflow("flow", Booked=[scheduled("lapse", to="Lapsed", criterion=criterion)], Lapsed=[])
    created = api.create(model=api.a_model(flow))
    before = len(all_events(api, created.id))
    assert timers.scan(at=timers.due(created.id)) == 1
    assert timers.of(created.id) == []
    assert api.read(created.id)["meta"]["transactionId"] == created.transaction
    assert len(changes(api, created.id)) == 1
    [declined] = all_events(api, created.id)[before:]
    assert declined["eventType"] == "TRANSITION_NOT_MATCH_CRITERION"
    assert declined["details"] == 'Transition "lapse" criterion not matched'
    assert declined["state"] == "Booked"
    assert declined["data"] == {
        "workflowName": "flow",
        "transition": "lapse",
        "criterion": "simple",
        "reason": "criterion did not match",
    }


def test_a_member_may_decline_with_a_reason(api, service, tenant, timers):
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", criterion=judged_by("is-idle", tags=""))], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    with a_node(service, tenant) as node:
        scan = timers.begin_scan(timers.due(entity))
        node.answer_next(matches=False, reason="somebody called")
        scan.result()
    [declined] = of_type(all_events(api, entity), "TRANSITION_NOT_MATCH_CRITERION")
    assert (declined["data"]["criterion"], declined["data"]["reason"]) == ("is-idle", "somebody called")
    assert timers.of(entity) == []


@pytest.mark.parametrize(
    ("lateness", "state", "stored"),
    [
        (0, "Lapsed", False),
        (1000, "Lapsed", False),  # equal to the timeout
        (1001, "Booked", True),  # within the grace: left for a later scan
        (1100, "Booked", True),
        (1101, "Booked", False),
    ],
)
def test_a_late_task_fires_waits_or_expires_by_its_lateness(api, timers, lateness, state, stored):
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", timeout_ms=1000)], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    timers.scan(at=timers.due(entity) + lateness)
    assert api.state(entity) == state
    assert bool(timers.of(entity)) is stored


def test_an_expired_task_says_so_and_leaves_the_entity_alone(api, timers):
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", timeout_ms=1000)], Lapsed=[])
    created = api.create(model=api.a_model(flow))
    timers.scan(at=timers.due(created.id) + 5000)
    [expired] = of_type(all_events(api, created.id), "SCHEDULED_TRANSITION_EXPIRE")
    assert expired["details"] == (
        'Scheduled transition "lapse" expired (lateness 5000ms > timeout 1000ms + grace 100ms)'
    )
    assert (expired["state"], expired["data"]) == ("Booked", None)
    assert api.read(created.id)["meta"]["transactionId"] == created.transaction


def test_a_task_in_its_grace_is_expired_by_the_scan_after_its_back_off(api, timers):
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", timeout_ms=0)], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    due = timers.due(entity)
    assert timers.scan(at=due + 50) == 1
    assert timers.scan(at=due + 1000) == 0
    assert timers.scan(at=due + 50 + 30_000) == 1
    assert len(of_type(all_events(api, entity), "SCHEDULED_TRANSITION_EXPIRE")) == 1


@pytest.mark.parametrize(
    "flow",
    [
        a_workflow(Booked=[scheduled("lapse", to="Lapsed", disabled=True)], Lapsed=[]),
        a_workflow(Booked=[manual("lapse", to="Lapsed")], Lapsed=[]),
        a_workflow(Booked=[scheduled("other", to="Lapsed")], Lapsed=[]),
        a_workflow(Elsewhere=[scheduled("lapse", to="Lapsed")], Lapsed=[]),
        a_workflow(Booked=[scheduled("lapse", to="Lapsed")], Lapsed=[], active=False),
    ],
    ids=["disabled", "not scheduled", "gone", "state gone", "inactive workflow"],
)
def test_a_task_whose_transition_is_no_longer_scheduled_is_dropped_in_silence(api, timers, flow):
    entity = api.create(model=api.a_model(LAPSING)).id
    due, events = timers.due(entity), all_events(api, entity)
    api.import_workflows(flow)
    timers.scan(at=due)
    assert timers.of(entity) == []
    assert api.state(entity) == "Booked"
    assert all_events(api, entity) == events


def test_a_task_left_behind_by_an_entity_that_moved_on_is_dropped_in_silence(api, timers):
    entity = api.create(model=api.a_model(LAPSING)).id
    due = timers.due(entity)
    api.import_workflows(a_workflow(Booked=[manual("ship", to="Shipped")], Shipped=[]))
    api.update(entity, fire="ship")
    api.import_workflows(LAPSING)
    timers.scan(at=due)
    assert timers.of(entity) == []
    assert api.state(entity) == "Shipped"


def test_a_failed_processor_leaves_everything_for_another_attempt_after_the_back_off(api, serving, timers):
    node, calls = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document):
        calls.append(document)
        if len(calls) == 1:
            raise ValueError("out of paper")

    serving(node)
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", processors=[a_processor()])], Lapsed=[])
    created = api.create(model=api.a_model(flow))
    due, events = timers.due(created.id), all_events(api, created.id)
    timers.scan(at=due)
    assert api.state(created.id) == "Booked"
    assert all_events(api, created.id) == events
    [task] = timers.of(created.id)
    assert (task["attempts"], task["not_before"], task["fire_at"]) == (1, due + 30_000, due)
    assert timers.scan(at=due + 29_999) == 0
    assert timers.scan(at=due + 30_000) == 1
    assert api.state(created.id) == "Lapsed"
    assert timers.of(created.id) == []


def test_without_a_member_a_fire_is_tried_again(api, service, tenant, timers):
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", processors=[a_processor(tags="printer")])], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    due = timers.due(entity)
    timers.scan(at=due)
    assert api.state(entity) == "Booked"
    with a_node(service, tenant, "printer") as node:
        scan = timers.begin_scan(due + 30_000)
        node.answer_next()
        scan.result()
    assert api.state(entity) == "Lapsed"


def test_a_criterion_that_cannot_be_judged_is_tried_again(api, timers):
    criterion = judged_by("is-idle", tags="nobody")
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", criterion=criterion)], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    timers.scan(at=timers.due(entity))
    [task] = timers.of(entity)
    assert task["attempts"] == 1
    assert of_type(all_events(api, entity), "TRANSITION_NOT_MATCH_CRITERION") == []


SEGMENTED = a_workflow(
    Booked=[scheduled("lapse", to="Lapsed", processors=[a_processor(mode="COMMIT_BEFORE_DISPATCH", tags="")])],
    Lapsed=[],
)


def test_a_fire_may_commit_before_it_dispatches(api, service, tenant, timers):
    created = api.create(model=api.a_model(SEGMENTED))
    entity = created.id
    with a_node(service, tenant) as node:
        scan = timers.begin_scan(timers.due(entity))
        request = node.next()
        during, [waiting] = api.read(entity)["meta"], timers.of(entity)
        node.answer(request, payload={"type": "JSON", "data": SAMPLE | {"motivation": "after"}})
        scan.result()
    assert (during["state"], waiting["transition"]) == ("Booked", "lapse")
    assert (api.state(entity), api.read(entity)["data"]["motivation"]) == ("Lapsed", "after")
    assert timers.of(entity) == []
    assert len(changes(api, entity)) == 3
    assert {(change["user"], change["executedBy"]["id"]) for change in changes(api, entity)[:2]} == {
        ("alice", "system")
    }
    trail = trail_after(api, created)
    assert len({event["transactionId"] for event in trail}) == 1
    assert names(trail) == [
        "PAUSE_FOR_PROCESSING",
        "STATE_PROCESS_RESULT",
        "TRANSITION_MAKE",
        "SCHEDULED_TRANSITION_FIRE",
    ]


def test_a_failed_callout_between_segments_is_on_record_and_tried_again(api, service, tenant, timers):
    created = api.create(model=api.a_model(SEGMENTED))
    entity = created.id
    due = timers.due(entity)
    with a_node(service, tenant) as node:
        scan = timers.begin_scan(due)
        node.fail_next("out of paper")
        scan.result()
        failed = trail_after(api, created)
        assert (api.state(entity), len(timers.of(entity))) == ("Booked", 1)
        scan = timers.begin_scan(due + 30_000)
        node.answer_next()
        scan.result()
    assert names(failed) == ["PAUSE_FOR_PROCESSING", "STATE_PROCESS_RESULT"]
    assert failed[-1]["data"] == {"success": False}
    assert (api.state(entity), timers.of(entity)) == ("Lapsed", [])


def test_callbacks_of_a_fire_commit_with_it_and_are_attributed_to_its_principal(api, serving, callback, timers):
    api.a_model(model="note/1", sample={"text": ""})
    node, note = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        note["id"] = callback(context).create({"text": "x"}, model="note/1").id

    serving(node)
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", processors=[a_processor()])], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    timers.scan(at=timers.due(entity))
    [created] = changes(api, note["id"])
    assert created["transactionId"] == api.read(entity)["meta"]["transactionId"]
    assert (created["user"], created["executedBy"]["id"]) == ("alice", "node")


def test_a_callback_that_moves_the_entity_itself_does_not_keep_the_fire_from_its_end(api, serving, callback, timers):
    """The run's own outcome is saved last; what the callback armed on the way counts as armed by the run."""
    node = Node(tags=["node"])

    @node.processor("touch")
    def touch(document, context):
        callback(context).update(context.entity_id)

    @node.processor("print")
    def print_it(document):
        return document | {"motivation": "printed"}

    serving(node)
    pipeline = [a_processor("touch"), a_processor("print", mode="COMMIT_BEFORE_DISPATCH")]
    flow = a_workflow(Booked=[scheduled("lapse", to="Lapsed", processors=pipeline)], Lapsed=[])
    entity = api.create(model=api.a_model(flow)).id
    timers.scan(at=timers.due(entity))
    assert (api.state(entity), api.read(entity)["data"]["motivation"]) == ("Lapsed", "printed")
    assert timers.of(entity) == []
