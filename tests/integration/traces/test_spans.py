"""Spans of whole requests, as a collector sees them (docs/reference/traces.md#spans)."""

import secrets

from statewright.sdk import Context, Node
from tests.builders import SAMPLE, a_processor, a_workflow, judged_by, manual
from tests.collector import Collector, Seen
from tests.integration.grpc_rpcs.client import Rpcs, an_event, spec
from tests.integration.node import a_node
from tests.integration.steps_http.conftest import definition, started, step, uploaded
from tests.integration.traces.background import approving
from tests.integration.transactions.conftest import connected
from tests.service import Api, RunningService, a_token, done, refused

HIDDEN = "a-document-that-no-span-may-show"
APPROVAL = a_workflow(NEW=[manual("APPROVE", to="DONE", processors=[a_processor("enrich")])], DONE=[])


def a_trace(*, sampled: bool = True) -> tuple[str, str]:
    """A trace id that nobody has seen before, and a header that names a span of it."""
    trace = secrets.token_hex(16)
    return trace, f"00-{trace}-{secrets.token_hex(8)}-0{int(sampled)}"


def spans_of(collector: Collector, trace: str, *names: str) -> list[Seen]:
    """The spans of a trace, once those that are named have arrived."""

    def of_trace(seen: list[Seen]) -> list[Seen]:
        return [span for span in seen if span.trace == trace]

    return of_trace(collector.wait_for(lambda seen: {*names} <= {span.name for span in of_trace(seen)}))


def the(name: str, spans: list[Seen], *, below: Seen | None = None) -> Seen:
    """The only span with a name, of those that are part of another one."""
    [found] = [span for span in spans if span.name == name and (below is None or span.parent == below.id)]
    return found


UPDATE = "PUT /api/entity/{format}/{entityId}/{transition}"
CREATE = "POST /api/entity/{format}/{entityName}/{modelVersion}"


def test_one_trace_leads_from_the_client_through_the_member_and_its_callback_to_the_commits(
    traced: RunningService, traced_api: Api, tenant: str, collector: Collector
):
    traced_api.a_model(APPROVAL)
    traced_api.a_model(model="note/1", sample={"text": "x"})
    entity = traced_api.create().id
    contexts: list[Context] = []
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(prize: dict[str, object], context: Context) -> dict[str, object]:
        contexts.append(context)
        context.client.create("note", 1, {"text": HIDDEN})
        return prize

    trace, header = a_trace()
    with connected(traced, tenant, node):
        traced_api.update(entity, {**SAMPLE, "motivation": HIDDEN}, fire="APPROVE", traceparent=header)
    spans = spans_of(collector, trace, UPDATE, CREATE)
    request, callout, callback = the(UPDATE, spans), the("dispatch.processor", spans), the(CREATE, spans)
    run = the("engine.run", spans, below=request)
    transition = the("engine.transition", spans, below=run)
    commit = the("tx.commit", spans)
    assert request.parent == header.split("-")[2]
    assert callout.parent == transition.id
    assert callback.parent == callout.id
    assert the("engine.run", spans, below=callback).attributes["entity.model"] == "note/1"
    assert commit.parent == request.id
    [context] = contexts
    assert context.trace is not None
    assert (context.trace.trace_id, context.trace.span_id) == (trace, callout.id)
    batches = [span for span in collector.spans if span.name == "tx.batch" and (trace, commit.id) in span.links]
    assert [span.trace != trace for span in batches] == [True]
    assert transition.attributes == {
        "entity.id": entity,
        "workflow.name": "lifecycle",
        "transition.name": "APPROVE",
        "state.from": "NEW",
        "state.to": "DONE",
    }
    assert callout.attributes["processor.execution_mode"] == "SYNC"
    assert (request.attributes["tenant"], request.attributes["http.response.status_code"]) == (tenant, 200)
    assert collector.resource["service.instance.id"] == "n1"
    assert not any(each in body for each in (HIDDEN.encode(), b"Bearer", b"eyJ") for body in collector.raw)


def test_spans_begin_traces_where_none_comes_in(traced_api: Api, collector: Collector):
    entity = traced_api.a_model() and traced_api.create().id
    spans = collector.wait_for(
        lambda seen: [s for s in seen if s.name == "engine.run" and s.attributes["entity.id"] == entity]
    )
    [run] = [span for span in spans if span.name == "engine.run" and span.attributes["entity.id"] == entity]
    request = the(CREATE, spans_of(collector, run.trace, CREATE))
    assert (request.parent, run.parent) == ("", request.id)


def test_a_grpc_request_is_a_part_of_the_trace_in_its_metadata_or_in_its_event(
    traced: RunningService, traced_api: Api, tenant: str, collector: Collector
):
    traced_api.a_model()
    (by_metadata, metadata), (by_event, attribute) = a_trace(), a_trace()
    new = an_event("EntityCreateRequest", dataFormat="JSON", payload={"model": spec(), "data": SAMPLE})
    Traced(traced.grpc, a_token(tenant), metadata).send(new)
    new.attributes["traceparent"].ce_string = attribute
    Rpcs(traced.grpc, a_token(tenant)).send(new)
    for trace, header in ((by_metadata, metadata), (by_event, attribute)):
        spans = spans_of(collector, trace, "entityManage", "tx.commit", "engine.run")
        assert the("entityManage", spans).parent == header.split("-")[2]
        assert the("engine.run", spans).parent == the("entityManage", spans).id


class Traced(Rpcs):
    """A caller whose requests belong to a trace; ``tx_token`` is the name of its place there."""

    def _metadata(self) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}"), ("traceparent", self.tx_token or "")]


def test_a_failure_is_told_by_its_code(traced: RunningService, traced_api: Api, tenant: str, collector: Collector):
    traced_api.a_model(APPROVAL)
    entity = traced_api.create().id
    trace, header = a_trace()
    with a_node(traced, tenant, "node") as node:
        with approving(traced_api, entity, traceparent=header) as answer:
            node.fail_next(HIDDEN)
        refused(answer(), 400, "WORKFLOW_FAILED")
    spans = spans_of(collector, trace, UPDATE)
    callout, transition, request = the("dispatch.processor", spans), the("engine.transition", spans), the(UPDATE, spans)
    assert (callout.failed, callout.attributes["error.code"]) == (True, "CALLOUT_FAILED")
    assert (transition.failed, transition.attributes["error.code"]) == (True, "WORKFLOW_FAILED")
    assert (request.failed, request.attributes["error.code"]) == (False, "WORKFLOW_FAILED")
    assert not any(HIDDEN.encode() in body for body in collector.raw)


def test_an_external_criterion_is_a_callout_of_its_own(
    traced: RunningService, traced_api: Api, tenant: str, collector: Collector
):
    traced_api.a_model(a_workflow(NEW=[manual("APPROVE", to="DONE", criterion=judged_by("worthy"))], DONE=[]))
    entity = traced_api.create().id
    trace, header = a_trace()
    node = Node(tags=["node"])
    node.criterion("worthy")(lambda _prize: True)
    with connected(traced, tenant, node):
        traced_api.update(entity, fire="APPROVE", traceparent=header)
    judged = the("dispatch.criteria", spans_of(collector, trace, UPDATE))
    assert (judged.attributes["criterion.name"], judged.attributes["criteria.matches"]) == ("worthy", True)
    assert judged.attributes["criterion.target"] == "TRANSITION"


def test_advances_of_instances_are_spans(traced: RunningService, tenant: str, collector: Collector):
    v1 = Api(traced.root, a_token(tenant))
    uploaded(v1, definition("order", step("wait", "WAIT", "end")))
    instance = started(v1, "order")["id"]
    trace, header = a_trace()
    done_signal = v1.post(f"/v1/instances/{instance}/signals/wait", {}, traceparent=header)
    assert done_signal.status_code < 300, done_signal.text
    spans = spans_of(collector, trace, "step.advance", "tx.commit")
    advance = the("step.advance", spans)
    assert the("tx.commit", spans).parent == advance.id


def test_the_flag_of_an_authenticated_caller_decides_and_that_of_a_stranger_does_not(
    traced: RunningService, tenant: str, collector: Collector
):
    admin = traced.api(tenant, user_roles=["ROLE_ADMIN"])
    done(admin.post("/admin/trace-sampler", {"sampler": "never"}))
    try:
        (kept, header), (dropped, unsampled), (foreign, strange) = a_trace(), a_trace(sampled=False), a_trace()
        admin.get("/model/", traceparent=unsampled)
        refused(traced.anonymous().get("/model/", traceparent=strange), 401, "UNAUTHORIZED")
        admin.get("/model/")
        admin.get("/model/", traceparent=header)
        spans_of(collector, kept, "GET /api/model/")
    finally:
        done(admin.post("/admin/trace-sampler", {"sampler": "always"}))
    assert not [span for span in collector.spans if span.trace in (dropped, foreign)]
