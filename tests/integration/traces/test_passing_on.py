"""Traces are passed on without any library (docs/reference/traces.md#passing-on)."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext

import pytest

from statewright.engine.callouts import CalloutDispatcher
from statewright.engine.engine import Engine
from statewright.ids import TenantId
from statewright.storage.commit.group_commit import GroupCommit
from tests.builders import a_processor, a_workflow, manual
from tests.database import Template
from tests.integration.node import Node, a_node
from tests.integration.traces.background import approving
from tests.service import Api, RunningService, eventually, hosted

APPROVAL = a_workflow(NEW=[manual("APPROVE", to="DONE", processors=[a_processor("enrich")])], DONE=[])
PLACE = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def called_out(api: Api, node: Node, **headers: str) -> dict[str, str]:
    """The attributes of the callout of a transition that is fired with these headers."""
    entity = api.create().id
    with approving(api, entity, **headers) as answer:
        request = node.answer_next()
    assert answer().status_code == 200
    return request.attributes


def test_a_callout_names_the_place_that_came_in(service: RunningService, api: Api, tenant: str):
    api.a_model(APPROVAL)
    with a_node(service, tenant, "node") as node:
        attributes = called_out(api, node, traceparent=PLACE, tracestate="vendor=x")
    assert (attributes["traceparent"], attributes["tracestate"]) == (PLACE, "vendor=x")


def test_without_a_trace_nothing_is_added(service: RunningService, api: Api, tenant: str):
    api.a_model(APPROVAL)
    with a_node(service, tenant, "node") as node:
        attributes = called_out(api, node)
    assert attributes.keys() == {"authtype", "authid", "authclaims", "cyodatxtoken"}


def test_what_makes_spans_is_not_there_where_traces_are_off(service: RunningService):
    runtime = service.parts.runtime
    assert runtime.core.tracer is None
    assert (type(runtime.core.engine), type(runtime.core.commits)) == (Engine, GroupCommit)
    assert type(runtime.core.engine._evaluator.dispatcher) is CalloutDispatcher


def test_malformed_names_are_ignored(service: RunningService, api: Api, tenant: str):
    api.a_model(APPROVAL)
    malformed = [PLACE[:cut] for cut in range(len(PLACE))]
    malformed += [f"{PLACE}{odd}" for odd in "0gx-;,'{}[]()<>@:%&=+~"] + [PLACE.replace("-", other) for other in "_."]
    malformed += ["ff" + PLACE[2:], "00-" + "0" * 32 + PLACE[35:], PLACE[:36] + "0" * 16 + "-01", "null"]
    for odd in malformed:
        assert api.get("/model/", traceparent=odd).status_code == 200
    with a_node(service, tenant, "node") as node:
        assert not called_out(api, node, traceparent=malformed[0], tracestate="x=1").keys() & {
            "traceparent",
            "tracestate",
        }


@pytest.fixture
def two(database_template: Template) -> Iterator[tuple[RunningService, RunningService]]:
    """Two nodes of one database that know each other."""
    with ExitStack() as stack:
        one = stack.enter_context(hosted(database_template.clone()))
        other = stack.enter_context(hosted(nullcontext(one.database)))
        eventually(lambda: other.parts.node.id in one.parts.node.peer_table.peers)
        yield one, other


def test_a_callout_through_another_node_names_the_same_place(two: tuple[RunningService, RunningService], tenant: str):
    one, other = two
    api = one.api(tenant)
    api.a_model(APPROVAL)
    with a_node(other, tenant, "node") as node:
        eventually(lambda: one.parts.node.peer_table.select(TenantId(tenant), ("node",)) is not None)
        attributes = called_out(api, node, traceparent=PLACE, tracestate="vendor=x")
    assert (attributes["traceparent"], attributes["tracestate"]) == (PLACE, "vendor=x")
