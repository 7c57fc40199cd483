"""What clients ask of the operations API: a method for each of its routes, and waits that go on beyond one request."""

import json
import re
from collections.abc import Generator
from typing import Any

import pytest

from statewright.api.http.ops.routes import OPS_ROUTES
from statewright.sdk.client import Bulk, Client, Events, Incidents, Ops, Subscriptions, Suspensions
from statewright.sdk.exchange import ONCE
from statewright.sdk.operations.calls import Call, HttpResponse
from statewright.sdk.operations.ops.history import population
from statewright.sdk.operations.ops.work import queue

EXAMPLES: dict[str, tuple[Any, ...]] = {
    "explain": ("e-1",),
    "explain_instance": ("i-1",),
    "wait": ("e-1",),
    "wait_for_instance": ("i-1",),
    "versions": ("e-1",),
    "version": ("e-1", "t-1"),
    "diff": ("e-1",),
    "restore": ("e-1", "t-1"),
    "transaction": ("t-1",),
    "events": ("e-1",),
    "drain": ("m-1",),
    "queue": ("JOB_TYPE", "fax"),
    "find": ("ORD-7",),
    "search": ("prize", 1, {"type": "group"}),
    "count": ("prize", 1, {"type": "group"}),
    "count_steps": ("steps", "errand"),
    "check_workflows": ("prize", 1, []),
    "simulate": ("prize", 1, {"document": {}}),
    "idempotency": ("key",),
    "workflow_revisions": ("prize", 1),
    "workflow_revision": ("prize", 1, 2),
    "workflow_diff": ("prize", 1, 2),
    "activate_workflows": ("prize", 1, 2),
    "population": ("prize", 1),
    "get": ("x-1",),
    "retry": ("x-1",),
    "resolve": ("x-1", "done"),
    "retry_group": ("6d0f",),
    "resolve_group": ("6d0f", "done"),
    "suspend": ("TENANT",),
    "resume": ("x-1",),
    "create": ("LOOPBACK",),
    "subscriptions.create": ("billing", "https://billing.example/hooks"),
    "subscriptions.change": ("x-1", {"enabled": False}),
    **dict.fromkeys(("delete", "rotate_secret", "test", "deliveries", "redeliver"), ("x-1",)),
    **dict.fromkeys(("start", "pause", "cancel", "retry_failed", "change", "items"), ("x-1",)),
}
"""Positional arguments, where a method wants any."""

NAMED: dict[str, dict[str, Any]] = {
    "record": {"enabled": True},
    "activate_workflows": {"reason": "r"},
    "restore": {"reason": "r"},
    "suspend": {"reason": "r"},
}


class Recorder:
    """A transport that answers what it is given, and remembers what was asked."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.calls: list[Call] = []
        self._answers = list(answers)

    def send(self, call: Call) -> HttpResponse:
        self.calls.append(call)
        if not self._answers:
            raise Asked
        return HttpResponse(200, json.dumps(self._answers.pop(0)).encode())

    async def send_async(self, call: Call) -> HttpResponse:
        return self.send(call)


class Asked(Exception):
    """The request was made; nobody answers."""


def list_calls() -> Generator[Call]:
    kinds = (Ops, Incidents, Suspensions, Bulk, Events, Subscriptions)
    parts = ("ops", "incidents", "suspensions", "bulk", "events", "subscriptions")
    for kind, part in zip(kinds, parts, strict=True):
        for name in vars(kind):
            if name.startswith("_"):
                continue
            transport = Recorder()
            method = getattr(getattr(Client.over(transport), part), name)
            with pytest.raises(Asked):
                list(method(*EXAMPLES.get(f"{part}.{name}", EXAMPLES.get(name, ())), **NAMED.get(name, {})))
            yield transport.calls[0]
    yield queue("TAG", "mail").call
    yield population("prize", 1, revision=2).call


def test_every_route_has_a_method_and_every_method_its_route() -> None:
    patterns = {
        route.id: (route.method, re.compile(re.sub(r"\{\w+\}", "[^/]+", route.path)), route) for route in OPS_ROUTES
    }
    covered: set[str] = set()
    for call in list_calls():
        fitting = [
            id_ for id_, (method, path, _) in patterns.items() if call.method == method and path.fullmatch(call.path)
        ]
        assert fitting, call.path
        _, _, route = patterns[fitting[0]]
        assert {name for name, _ in call.query} <= {query.name for query in route.query}, call.name
        assert call.only_asks or call.method == "GET" or route.recording != "nothing", call.name
        assert call.at_root
        covered.update(fitting)
    assert covered == patterns.keys()


def test_a_wait_goes_on_in_further_requests_from_where_it_was() -> None:
    waits = [
        {"reached": False, "deleted": False, "waitedMs": 50_000, "transactionId": f"t-{number}"} for number in (1, 2)
    ]
    transport = Recorder(*waits, {"reached": True, "deleted": False, "waitedMs": 5, "state": "PAID"})
    found = Client.over(transport, retry=ONCE).ops.wait("e-1", states=["PAID"], timeout_s=110)
    assert (found.reached, found.state) == (True, "PAID")
    assert [dict(call.query) for call in transport.calls] == [
        {"state": "PAID", "timeout": "PT50.000S"},
        {"state": "PAID", "timeout": "PT50.000S", "after": "t-1"},
        {"state": "PAID", "timeout": "PT10.000S", "after": "t-2"},
    ]


def test_a_wait_ends_with_its_time_also_where_nodes_answer_at_once() -> None:
    at_once = {"reached": False, "deleted": False, "waitedMs": 0, "status": "ACTIVE"}
    transport = Recorder(*[at_once] * 10)
    assert not Client.over(transport).ops.wait_for_instance("i-1", timeout_s=0.3).reached
    assert len(transport.calls) == 3


def test_numbers_of_answers_keep_their_digits() -> None:
    digits = "12345678901234567890.12345678901234567890"
    body = f'{{"reached": true, "deleted": false, "waitedMs": 1, "unknown": {digits}}}'
    version = (
        '{"transactionId": "t", "at": "", "state": "S", "transition": "", "changeType": "UPDATE", "attributedTo":'
        ' {"id": "a", "kind": "user"}, "executedBy": {"id": "a", "kind": "user"}, "bytes": 1, "current": true,'
        ' "until": null, "workflow": "w", "workflowRevision": 1,'
        f' "document": {{"n": {digits}}}}}'
    )

    class Fixed(Recorder):
        def send(self, call: Call) -> HttpResponse:
            return HttpResponse(200, (version if "versions" in call.path else body).encode())

    ops = Client.over(Fixed()).ops
    assert str(ops.version("e", "t").document["n"]) == digits  # type: ignore[index, call-overload]
    assert ops.wait("e").reached
