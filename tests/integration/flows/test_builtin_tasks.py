"""Tasks that the service does itself: events, counters (docs/reference/flows.md#built-in-tasks)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.builders import Json
from tests.integration.flows.conftest import Flows, an_error, done
from tests.service import eventually

PAID = "wait:event (- event: paid -) → A"


def send(flows: Flows, event: str, fields: Json = None, output: Json = None, **members: Json) -> Json:
    return done(
        flows.api.post("/v1/flows/events", {"event": event, "fields": fields, "output": output, **members}),
    )


def count(flows: Flows, name: str) -> int:
    return int(done(flows.api.get(f"/v1/flows/counters/{name}"))["value"])


def test_an_event_completes_what_waits_for_it_with_its_output_or_with_the_input(flows: Flows):
    instance = flows.run(PAID, {"order": 7})
    assert flows.poll("wait:event", "A") == []
    assert send(flows, "other") == {"tasks": 0, "receipts": []}
    assert send(flows, "paid") == {"tasks": 1, "receipts": [{"instanceId": instance["id"], "node": 1}]}
    assert flows.job("A")["variables"]["input"] == {"order": 7}
    other = flows.run(PAID, {"order": 8})
    send(flows, "paid", {"order": 9}, {"amount": 12})
    assert flows.job("A")["variables"]["input"] == {"amount": 12}
    lines = {line["name"]: line for line in flows.history(other)}
    assert (lines["wait:event.1"]["status"], lines["wait:event.1"]["output"]) == ("COMPLETED", {"amount": 12})
    assert send(flows, "paid")["tasks"] == 0


def test_an_event_whose_fields_are_matched_reaches_only_the_inputs_that_have_them(flows: Flows):
    flow = flows.upload("wait:event (- {event: paid, match: input, receipt: false} -)")
    seven = flows.start(flow, {"order": 7, "of": {"a": [1, True]}})
    eight = flows.start(flow, {"order": 8})
    assert send(flows, "paid", {"order": 7, "of": {"a": [1, 1]}})["tasks"] == 0
    assert send(flows, "paid", {"order": 7, "of": {"a": [1.0, True]}}, {"ok": 1}) == {"tasks": 1, "receipts": []}
    assert flows.read(seven)["result"] == {"order": 7, "of": {"a": [1, True]}, "ok": 1}
    assert flows.read(eight)["status"] == "RUNNING"


def test_an_event_looks_only_at_the_tasks_it_may_wake(flows: Flows, monkeypatch: pytest.MonkeyPatch):
    flow = flows.upload("wait:event (- {event: paid, match: input} -)")
    values: list[Json] = [{"order": 1}, {"order": True}, {"order": "7"}, {"of": 7}, [{"order": 7}], {"order": [7]}]
    for value in values:
        flows.start(flow, value)
    large = flows.start(flow, {"order": 7, "many": 1, **{f"m{number}": number for number in range(64)}})
    seven = flows.start(flow, {"order": 7, "at": {"a": [1]}, "text": "x" * 2_000})
    monkeypatch.setattr("statewright.services.flows.events.MAX_TASKS", 3)
    fields = {"order": 7.0, "at": {"a": [1]}, "text": "x" * 2_000}
    assert send(flows, "paid", fields)["tasks"] == 1
    assert flows.read(seven)["status"] == "COMPLETED"
    assert send(flows, "paid", {"order": 7, "m3": 3})["tasks"] == 1
    assert flows.read(large)["status"] == "COMPLETED"
    told = send(flows, "paid", {"order": 7})
    assert (told["tasks"], "next" in told) == (0, False)
    assert send(flows, "paid", {"order": "7"})["tasks"] == 1
    assert send(flows, "paid", {"order": [7]})["tasks"] == 1


def test_an_event_for_an_instance_is_kept_until_a_task_waits_for_it(flows: Flows):
    text = "A → wait:event (- {event: paid, match: input} -) → * wait:event (- event: part -) → B"
    instance = flows.start(flows.upload(text), {}, businessKey="O-17")
    here = {"instanceId": instance["id"]}
    assert send(flows, "paid", {"order": 8}, **here) == {"tasks": 0, "receipts": [], "kept": True}
    assert send(flows, "paid", {"order": 7}, {"amount": 1}, businessKey="O-17")["kept"]
    assert send(flows, "paid", {"order": 7}, {"amount": 2}, **here)["kept"]
    assert send(flows, "part", output={"n": 1}, **here)["kept"]
    assert send(flows, "paid", {"order": 7})["tasks"] == 0
    flows.complete(flows.job("A"), {"order": 7})
    assert flows.job("B")["variables"]["input"] == [{"n": 1}]
    [waited] = [line for line in flows.history(instance) if line["name"] == "wait:event.2"]
    assert waited["output"] == {"order": 7, "amount": 1}
    assert send(flows, "part", **here)["kept"]


def test_kept_events_are_taken_first_in_first_out_and_survive_a_restart(flows: Flows):
    text = "A → wait:event (- event: e -) → wait:event (- event: e -) → wait:event (- event: e -)"
    instance = flows.start(flows.upload(text), {}, businessKey="K")
    for number in (1, 2):
        assert send(flows, "e", output={"n": number}, businessKey="K")["kept"]
    flows.fail(flows.job("A"))
    flows.do(instance, "restart")
    flows.complete(flows.job("A"), {})
    lines = [line for line in flows.history(instance) if line["name"].startswith("wait:event")]
    assert [(line["name"], line["status"], line.get("output")) for line in lines] == [
        ("wait:event.2", "COMPLETED", {"n": 1}),
        ("wait:event.3", "COMPLETED", {"n": 2}),
        ("wait:event.4", "RUNNING", None),
    ]
    assert send(flows, "e", output={"n": 3}, instanceId=instance["id"])["receipts"] == [
        {"instanceId": instance["id"], "node": 4}
    ]
    assert flows.read(instance)["result"] == {"n": 3}
    an_error(flows.api.post("/v1/flows/events", {"event": "e", "instanceId": instance["id"]}), 409, "conflict")


def test_an_event_for_an_instance_that_is_sent_twice_with_a_key_counts_once(flows: Flows):
    instance = flows.run("A → wait:event (- event: e -) → wait:event (- event: e -)")
    body, keyed = {"event": "e", "instanceId": instance["id"]}, {"Idempotency-Key": "once"}
    told = [done(flows.api.post("/v1/flows/events", body, **keyed)) for _ in range(2)]
    assert told == [{"tasks": 0, "receipts": [], "kept": True}] * 2
    flows.complete(flows.job("A"), {})
    assert flows.read(instance)["activeNodes"] == [3]


def test_an_event_for_no_instance_is_refused(flows: Flows, other: Flows):
    text = "A → wait:event (- event: e -)"
    first = flows.start(flows.upload(text), {}, businessKey="K")
    second = flows.upload(text)
    flows.start(second, {}, businessKey="K")

    def refuse(sender: Flows, status: int, error: str, **address: Json) -> None:
        an_error(sender.api.post("/v1/flows/events", {"event": "e", **address}), status, error)

    refuse(flows, 400, "bad-request", businessKey="K")
    refuse(flows, 400, "bad-request", instanceId="nothing")
    refuse(flows, 400, "bad-request", instanceId=first["id"], businessKey="K")
    refuse(flows, 400, "bad-request", definitionId=second)
    refuse(flows, 400, "bad-request", instanceId=first["id"], after=first["id"])
    refuse(flows, 404, "not-found", businessKey="L")
    refuse(other, 404, "not-found", instanceId=first["id"])
    assert send(flows, "e", businessKey="K", definitionId=second)["kept"]


def test_an_instance_keeps_so_many_events_at_most(flows: Flows, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("statewright.flows.operations.MAX_KEPT_EVENTS", 2)
    instance = flows.run("A → wait:event (- event: e -)")
    here = {"instanceId": instance["id"]}
    assert [send(flows, kind, **here)["kept"] for kind in ("e", "f")] == [True, True]
    an_error(flows.api.post("/v1/flows/events", {"event": "e", **here}), 409, "conflict")
    flows.complete(flows.job("A"), {})
    assert flows.read(instance)["status"] == "COMPLETED"


def test_the_kind_of_an_event_is_a_template_and_elements_wait_apart(flows: Flows):
    instance = flows.run(
        "* wait:event (- {event: 'paid-{input[id]}-{parameters[of]}', of: eu} -)", [{"id": 1}, {"id": 2}]
    )
    assert send(flows, "paid-2-eu")["receipts"] == [{"instanceId": instance["id"], "node": 1, "element": 1}]
    assert send(flows, "paid-1-eu", output=[1])["tasks"] == 1
    assert flows.read(instance)["result"] == [[1], {"id": 2}]
    failed = flows.run("wait:event (- event: 'paid-{input[id]}' -)", {"no": 1})
    assert failed["failureReason"] == "TEMPLATE: there is nothing for {input[id]}"


def test_many_waiting_tasks_are_reached_page_by_page(flows: Flows, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("statewright.services.flows.events.MAX_TASKS", 2)
    instances = [flows.run("wait:event (- event: e -)") for _ in range(3)]
    first = send(flows, "e")
    assert first["tasks"] == 2
    assert send(flows, "e", after=first["next"])["tasks"] == 1
    assert [flows.read(one)["status"] for one in instances] == ["COMPLETED"] * 3
    an_error(flows.api.post("/v1/flows/events", {"event": "e", "after": "x"}), 400, "bad-request")


def test_waiting_ends_with_its_instance_and_begins_again_with_it(flows: Flows):
    instance = flows.run("wait:event (- event: e -)")
    flows.do(instance, "terminate")
    flows.do(instance, "terminate")
    assert send(flows, "e")["tasks"] == 0
    flows.do(instance, "restart")
    assert send(flows, "e")["tasks"] == 1
    cancelled = flows.run("wait:event (- event: e -)")
    flows.do(cancelled, "cancel")
    assert send(flows, "e")["tasks"] == 0
    failed = flows.run("wait:event (- event: e -) → A ; B")
    flows.fail(flows.job("B"))
    assert send(flows, "e")["tasks"] == 1
    assert flows.read(failed)["activeNodes"] == []


def test_events_of_other_tenants_reach_nothing(flows: Flows, other: Flows):
    instance = flows.run("wait:acquire (- name: n -) → wait:event (- event: e -)")
    assert (send(other, "e")["tasks"], count(other, "n"), count(flows, "n")) == (0, 0, 1)
    assert flows.read(instance)["status"] == "RUNNING"


def test_a_countdown_waits_until_all_that_was_acquired_is_released(flows: Flows):
    holder = flows.run(
        "wait:acquire (- name: 'import-{input[n]}' -) → work → wait:release (- name: 'import-{input[n]}' -)", {"n": 4}
    )
    waiting = flows.run("wait:countdown (- name: import-4 -) → A", {"in": 1})
    assert (count(flows, "import-4"), flows.read(waiting)["activeNodes"]) == (1, [1])
    assert flows.poll("wait:countdown", "wait:acquire", "wait:release", "A") == []
    flows.complete(flows.job("work"), {"n": 4})
    assert (flows.read(holder)["status"], count(flows, "import-4")) == ("COMPLETED", 0)
    eventually(lambda: flows.read(waiting)["activeNodes"] == [2])
    assert flows.job("A")["variables"]["input"] == {"in": 1}


def test_what_a_cancelled_instance_holds_of_counters_is_released(flows: Flows):
    text = "wait:acquire (- name: c -) → wait:acquire (- name: c -) → wait:acquire (- name: d -)"
    holder = flows.run(f"{text} → wait:release (- name: d -) → wait:release (- name: e -) → A", {})
    waiting = flows.run("wait:countdown (- name: c -)")
    assert (count(flows, "c"), count(flows, "d"), count(flows, "e")) == (2, 0, -1)
    flows.fail(flows.job("A"))
    flows.do(holder, "restart")
    assert count(flows, "c") == 2
    flows.do(holder, "cancel")
    assert (count(flows, "c"), count(flows, "d"), count(flows, "e")) == (0, 0, -1)
    eventually(lambda: flows.read(waiting)["status"] == "COMPLETED")


def test_a_countdown_of_a_counter_that_nobody_holds_is_done(flows: Flows):
    instance = flows.run("wait:countdown (- name: free -)", {"in": 1})
    eventually(lambda: flows.read(instance)["status"] == "COMPLETED")


def test_counters_count_every_element_of_every_flow_once(flows: Flows):
    flow = flows.upload("* wait:acquire (- name: c -) → * { wait:release (- name: c -) ; wait:acquire (- name: d -) }")
    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(lambda _: flows.start(flow, list(range(25))), range(8)))
    assert {one["status"] for one in ended} == {"COMPLETED"}
    assert (count(flows, "c"), count(flows, "d")) == (0, 200)
    lines = flows.history(ended[0])
    assert sum(line["name"].startswith("wait:acquire.1") and "element" in line for line in lines) == 25


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("wait:event", (1, 1)),
        ("A →\n wait:event (- event: '' -)", (2, 2)),
        ("wait:event (- {event: e, match: output} -)", (1, 1)),
        ("wait:event (- {event: e, receipt: 1} -)", (1, 1)),
        ("wait:acquire", (1, 1)),
        ("wait:release (- name: 5 -)", (1, 1)),
        ("wait:countdown ([1])", (1, 1)),
    ],
)
def test_a_built_in_task_without_its_parameters_is_refused(flows: Flows, source: str, place: tuple[int, int]):
    refused = an_error(flows.api.post("/v1/flows/definitions", {"id": "x", "source": source}), 400, "bad-request")
    assert (refused["code"], (refused["line"], refused["column"])) == ("PARAMETERS", place)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"event": ""},
        {"event": "x" * 256},
        {"event": "e", "output": 5},
        {"event": "e", "fields": [1]},
        {"event": "e", "fields": {"list": list(range(1001))}},
        {"event": "e", "output": {"text": "\0"}},
    ],
)
def test_what_is_no_event_is_refused(flows: Flows, body: Json):
    an_error(flows.api.post("/v1/flows/events", body), 400, "bad-request")
