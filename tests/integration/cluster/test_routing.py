"""Callbacks sent to a node that does not own the transaction (docs/reference/grpc.md#callbacks-to-other-nodes)."""

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from statewright.sdk import Context
from statewright.sdk import Node as SdkNode
from statewright.telemetry import logs
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, when
from tests.integration.grpc_rpcs.client import Rpcs, spec
from tests.integration.transactions.conftest import JoinedApi, connected
from tests.service import Api, RunningService, a_token, done, eventually, refused

NOTE = {"text": "", "n": 0}
MOVE = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])

Work = Callable[[Context, Json], object]


class Elsewhere:
    """Runs something during a callout of a transaction that one node owns, from a member of the tenant."""

    def __init__(self, here: RunningService, there: RunningService, tenant: str) -> None:
        self.here, self.there, self.tenant = here, there, tenant
        self.owner = here.api(tenant)

    def joined(self, context: Context, *, at: RunningService | None = None) -> Api:
        """The API of the node that does not own the transaction, inside it."""
        api = (at or self.there).api(self.tenant, "node", user_roles=None, scopes=["ROLE_M2M"])
        return JoinedApi(api.url, api.token, context.tx_token or "")

    def rpcs(self, context: Context) -> Rpcs:
        return Rpcs(self.there.grpc, a_token(self.tenant, "node", user_roles=None, scopes=["ROLE_M2M"])).joining(
            context.tx_token
        )

    def during(self, work: Work, *, model: str = "prize/1", sample: Json = SAMPLE) -> "Api":
        """A model whose entities are moved by ``work``; connects the member to the other node until the test ends."""
        node = SdkNode(tags=["node"])

        @node.processor("enrich")
        def enrich(document: Json, context: Context) -> object:
            return work(context, document)

        self.stack.enter_context(connected(self.there, self.tenant, node))
        self.owner.a_model(MOVE, model=model, sample=sample)
        return self.owner

    stack: ExitStack


@pytest.fixture
def elsewhere(here: RunningService, there: RunningService, tenant: str) -> Iterator[Elsewhere]:
    with ExitStack() as stack:
        parts = Elsewhere(here, there, tenant)
        parts.stack = stack
        parts.owner.a_model(model="note/1", sample=NOTE)
        yield parts


def test_what_an_http_callback_writes_through_another_node_commits_with_its_owner(elsewhere: Elsewhere) -> None:
    seen: dict[str, Json] = {}

    def work(context: Context, _document: Json) -> None:
        joined = elsewhere.joined(context)
        note = joined.create({"text": "from inside", "n": 1}, model="note/1")
        seen["inside"] = joined.read(note.id)["data"]["text"]
        seen["near"] = elsewhere.joined(context, at=elsewhere.here).read(note.id)["data"]["text"]
        seen["outside"] = [api.get(f"/entity/{note.id}").status_code for api in both(elsewhere)]
        seen["note"], seen["transaction"] = note.id, note.transaction

    saved = elsewhere.during(work).create()
    assert (seen["inside"], seen["near"], seen["outside"]) == ("from inside", "from inside", [404, 404])
    assert seen["transaction"] == saved.transaction
    for api in both(elsewhere):
        assert api.read(seen["note"])["meta"]["transactionId"] == saved.transaction


def test_both_nodes_log_a_callback_under_the_same_name(elsewhere: Elsewhere) -> None:
    stream, named = io.BytesIO(), list[str]()

    def work(context: Context, _document: Json) -> None:
        response = elsewhere.joined(context).get("/entity/unreadable")
        refused(response, 400, "BAD_REQUEST")
        named.append(response.headers["x-request-id"])

    api = elsewhere.during(work)
    logs.configure("info", "json", stream)
    api.create()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    [refusal] = [
        line for line in lines if str(line.get("path")).endswith("/entity/unreadable")
    ]  # by the owner of the transaction
    assert [refusal["request"]] == named


def test_a_callback_whose_client_leaves_amid_the_answer_is_no_failure(elsewhere: Elsewhere) -> None:
    stream, seen = io.BytesIO(), list[str]()

    def work(context: Context, _document: Json) -> None:
        joined = elsewhere.joined(context)
        note = joined.create({"text": "x" * 9_000_000, "n": 1}, model="note/1")
        before = count_gets(elsewhere.there)
        url = httpx.URL(joined.url)
        head = (
            f"GET {url.path}/entity/{note.id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {joined.token}\r\n"
        )
        with socket.create_connection((url.host, url.port or 80)) as client:
            client.sendall(f"{head}x-tx-token: {context.tx_token}\r\n\r\n".encode())
            seen.append(client.recv(12).decode())
        eventually(lambda: count_gets(elsewhere.there) > before)

    api = elsewhere.during(work)
    logs.configure("info", "json", stream)
    api.create()
    assert seen == ["HTTP/1.1 200"]
    events = {json.loads(line)["msg"] for line in stream.getvalue().splitlines()}
    assert events.isdisjoint({"request_cut_off", "request_failed", "relay_failed"})


def count_gets(service: RunningService) -> float:
    """How many it has answered."""
    lines = httpx.get(f"{service.admin}/metrics").text.splitlines()
    name = 'statewright_http_requests_total{method="GET",status="200"} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def both(elsewhere: Elsewhere) -> list[Api]:
    return [elsewhere.here.api(elsewhere.tenant), elsewhere.there.api(elsewhere.tenant)]


def test_the_same_over_grpc_for_every_routed_method(elsewhere: Elsewhere) -> None:
    seen: dict[str, Json] = {}

    def work(context: Context, _document: Json) -> None:
        rpcs = elsewhere.rpcs(context)
        note = rpcs.create({"text": "one", "n": 1}, model="note")
        [many] = rpcs.ask(
            "EntityCreateCollectionRequest",
            dataFormat="JSON",
            payloads=[{"model": spec("note"), "data": {"text": "many", "n": n}} for n in (2, 3)],
        )
        seen["read"] = rpcs.read(note)["data"]["text"]
        condition = {"type": "group", "operator": "AND", "conditions": [when("$.n", "GREATER_THAN", 0)]}
        found = rpcs.ask("EntitySearchRequest", model=spec("note"), condition=condition)
        seen["found"] = sorted(int(answer["payload"]["data"]["n"]) for answer in found)
        seen["ids"] = [note, *many["transactionInfo"]["entityIds"]]
        rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId="00000000-0000-1000-8000-000000000000")

    saved = elsewhere.during(work).create()
    assert seen["read"] == "one"
    assert seen["found"] == [1, 2, 3]
    for entity in seen["ids"]:
        assert elsewhere.owner.read(entity)["meta"]["transactionId"] == saved.transaction


def test_what_a_callback_wrote_elsewhere_is_undone_when_the_owner_fails(elsewhere: Elsewhere) -> None:
    written: list[str] = []

    def work(context: Context, _document: Json) -> None:
        written.append(elsewhere.joined(context).create({"text": "x", "n": 1}, model="note/1").id)
        raise ValueError("no luck")

    owner = elsewhere.during(work)
    refused(owner.post("/entity/JSON/prize/1", SAMPLE), 400, "WORKFLOW_FAILED")
    assert [api.get(f"/entity/{written[0]}").status_code for api in both(elsewhere)] == [404, 404]


def test_callbacks_nest_three_deep_over_two_nodes_and_commit_as_one(elsewhere: Elsewhere) -> None:
    transactions: list[Json] = []

    def work(context: Context, document: Json) -> None:
        level = int(document["n"])
        transactions.append(context.transaction_id)
        if level < 3:
            at = (elsewhere.here, elsewhere.there)[level % 2]
            elsewhere.joined(context, at=at).create({"n": level + 1}, model="nest/1")

    owner = elsewhere.during(work, model="nest/1", sample={"n": 0})
    owner.create({"n": 0}, model="nest/1")
    assert len(transactions) == 4
    assert len(set(transactions)) == 1
    stored = done(owner.get("/entity/nest/1"))
    assert sorted((int(envelope["data"]["n"]), envelope["meta"]["state"]) for envelope in stored) == [
        (n, "DONE") for n in range(4)
    ]
    assert {envelope["meta"]["transactionId"] for envelope in stored} == set(transactions)


def test_parallel_callbacks_through_both_nodes_all_take_effect(elsewhere: Elsewhere) -> None:
    created: list[str] = []

    def work(context: Context, _document: Json) -> None:
        begin = threading.Barrier(8)

        def one(number: int) -> None:
            joined = elsewhere.joined(context, at=(elsewhere.here, elsewhere.there)[number % 2])
            begin.wait()
            created.append(joined.create({"text": "side", "n": number}, model="note/1").id)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    owner = elsewhere.during(work)
    saved = owner.create()
    assert len(created) == 8
    assert {owner.read(entity)["meta"]["transactionId"] for entity in created} == {saved.transaction}


def test_large_bodies_pass_in_both_directions_and_the_owners_limit_holds(elsewhere: Elsewhere) -> None:
    seen: dict[str, Json] = {}
    text = "x" * 4_000_000

    def work(context: Context, _document: Json) -> None:
        joined = elsewhere.joined(context)
        note = joined.create({"text": text, "n": 1}, model="note/1")
        seen["read"] = joined.read(note.id)["data"]["text"]
        condition = {"type": "group", "operator": "AND", "conditions": [when("$.n", "EQUALS", 1)]}
        seen["found"] = joined.post("/search/direct/note/1", condition).text.count("\n")
        seen["type"] = joined.post("/search/direct/note/1", condition).headers["content-type"]
        seen["excess"] = joined.post("/entity/JSON/note/1", b'"' + b"x" * 11_000_000 + b'"').status_code

    elsewhere.during(work).create()
    assert seen["read"] == text
    assert seen["found"] == 1
    assert "ndjson" in seen["type"]
    assert seen["excess"] in {400, 413}


def test_a_token_is_refused_through_another_node_as_by_its_owner(elsewhere: Elsewhere) -> None:
    tokens: list[str] = []

    def work(context: Context, _document: Json) -> None:
        tokens.append(context.tx_token or "")
        stranger = elsewhere.there.api("another-tenant")
        refused(JoinedApi(stranger.url, stranger.token, tokens[0]).get("/model/"), 403, "FORBIDDEN")
        nobody = JoinedApi(stranger.url, None, tokens[0])
        assert nobody.get("/model/").status_code == 401

    elsewhere.during(work).create()
    late = JoinedApi(elsewhere.there.api(elsewhere.tenant).url, a_token(elsewhere.tenant), tokens[0])
    refused(late.get("/model/"), 404, "TRANSACTION_NOT_FOUND")
    refused(JoinedApi(late.url, late.token, tokens[0].replace(".", ".A")).get("/model/"), 401, "UNAUTHORIZED")
