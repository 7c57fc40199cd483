"""Callbacks over gRPC that take part in the transaction they are called from
(docs/reference/grpc.md#transaction-tokens).
"""

from collections.abc import Callable, Iterator

import pytest

from statewright.ids import TransactionId, system_clock
from statewright.sdk import Context, Node
from statewright.services.transactions import TransactionTokens
from statewright.settings import Secret
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual, when
from tests.database import Template
from tests.integration.grpc_rpcs.client import RPC_OF, UNARY, UNKNOWN, Rpcs, an_event, payload_of, spec
from tests.integration.transactions.conftest import Serving
from tests.service import Api, RunningService, a_token, hosted, refused

NOTE = {"text": "", "n": 0}
EVERY: Json = {"type": "group", "operator": "AND", "conditions": []}
Work = Callable[[Rpcs], Json]


@pytest.fixture
def during(service: RunningService, tenant: str, api: Api, serving: Serving) -> Callable[[Work], Api]:
    """Makes every new prize call back: the work is done by a member, inside the transaction that creates the prize."""

    def prepared(work: Work) -> Api:
        node = Node(tags=["node"])
        token = a_token(tenant, "node", user_roles=None, scopes=["ROLE_M2M"])

        @node.processor("enrich")
        def enrich(_document: Json, context: Context) -> None:
            work(Rpcs(service.grpc, token).joining(context.tx_token))

        serving(node)
        api.a_model(model="note/1", sample=NOTE)
        api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
        return api

    return prepared


def a_note(text: str = "x", n: int = 1) -> Json:
    return {"model": spec("note"), "data": {"text": text, "n": n}}


def test_what_a_callback_creates_is_of_its_owners_transaction(rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    seen: dict[str, Json] = {}

    def work(joined: Rpcs) -> None:
        seen["answer"] = joined.done("EntityCreateRequest", dataFormat="JSON", payload=a_note())
        [seen["note"]] = seen["answer"]["transactionInfo"]["entityIds"]
        seen["inside"] = joined.read(seen["note"])["data"]
        rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=seen["note"])

    owner = during(work).create()
    assert seen["inside"] == {"text": "x", "n": 1}
    assert seen["answer"]["transactionInfo"]["transactionId"] == owner.transaction
    assert rpcs.read(seen["note"])["meta"]["transactionId"] == owner.transaction


def test_what_a_callback_wrote_is_undone_when_its_owner_fails(rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    written: list[str] = []

    def work(joined: Rpcs) -> None:
        written.append(joined.create({"text": "x", "n": 1}, model="note"))
        raise ValueError("no luck")

    refused(during(work).post("/entity/JSON/prize/1", SAMPLE), 400, "WORKFLOW_FAILED")
    rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=written[0])


def test_a_callback_that_is_refused_leaves_its_owner_as_it_was(rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    kept: list[str] = []

    def work(joined: Rpcs) -> None:
        kept.append(joined.create({"text": "kept", "n": 1}, model="note"))
        bad = {"model": spec("note"), "data": {"text": 5}}
        joined.refused("EntityCreateRequest", "INCOMPATIBLE_TYPE", dataFormat="JSON", payload=bad)
        joined.refused("EntityTransitionRequest", "TRANSITION_NOT_FOUND", entityId=kept[0], transition="NOWHERE")
        joined.invalid("EntityCreateRequest", dataFormat="YAML", payload=bad)
        many = [a_note("lost"), bad]
        joined.refused("EntityCreateCollectionRequest", "INCOMPATIBLE_TYPE", dataFormat="JSON", payloads=many)

    during(work).create()
    notes = rpcs.ask("EntityGetAllRequest", model=spec("note"))
    assert [note["payload"]["data"]["text"] for note in notes] == ["kept"]


def test_every_read_sees_what_the_transaction_wrote(rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    def work(joined: Rpcs) -> None:
        note = joined.create({"text": "inside", "n": 1}, model="note")
        condition = when("$.text", "EQUALS", "inside")
        for kind, members in (
            ("EntityGetRequest", {"entityId": note}),
            ("EntityGetAllRequest", {"model": spec("note")}),
            ("EntitySearchRequest", {"model": spec("note"), "condition": condition}),
        ):
            [answer] = joined.ask(kind, **members)
            assert answer["payload"]["meta"]["id"] == note, kind
        assert joined.done("EntityStatsGetRequest", model=spec("note"))["count"] == 1
        [by_state] = joined.ask("EntityStatsByStateGetRequest", model=spec("note"))
        assert by_state["count"] == 1
        assert rpcs.done("EntityStatsGetRequest", model=spec("note"))["count"] == 0

    during(work).create()


def test_collections_join_as_a_whole(rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    transactions: list[str] = []

    def work(joined: Rpcs) -> None:
        many = joined.done("EntityCreateCollectionRequest", dataFormat="JSON", payloads=[a_note("a"), a_note("b")])
        first, second = many["transactionInfo"]["entityIds"]
        changed = [{"entityId": first, "data": {"n": 7}}, {"entityId": second, "data": {"n": 8}}]
        updated = joined.done("EntityUpdateCollectionRequest", dataFormat="JSON", payloads=changed)
        transactions.extend(answer["transactionInfo"]["transactionId"] for answer in (many, updated))

    owner = during(work).create()
    assert transactions == [owner.transaction] * 2
    notes = rpcs.ask("EntityGetAllRequest", model=spec("note"))
    assert sorted(note["payload"]["data"]["n"] for note in notes) == [7, 8]


def test_a_callback_can_patch_fire_and_delete(api: Api, rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    notes: dict[str, str] = {}

    def work(joined: Rpcs) -> None:
        for name in ("patched", "fired", "deleted"):
            notes[name] = joined.create({"text": name, "n": 1}, model="note")
        change = {"entityId": notes["patched"], "patch": {"n": 2}, "ifMatch": "*"}
        joined.done("EntityPatchRequest", patchFormat="MERGE_PATCH", payload=change)
        joined.done("EntityTransitionRequest", entityId=notes["fired"], transition="READ")
        joined.done("EntityDeleteRequest", entityId=notes["deleted"])

    during(work)
    api.import_workflows(a_workflow(NEW=[manual("READ", to="READ")], READ=[]), model="note/1")
    api.create()
    assert rpcs.read(notes["patched"])["data"]["n"] == 2
    assert rpcs.read(notes["fired"])["meta"]["state"] == "READ"
    rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=notes["deleted"])


def test_an_entity_that_is_being_created_is_not_there_for_callbacks(rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    def work(joined: Rpcs) -> None:
        assert joined.ask("EntitySearchRequest", model=spec(), condition=EVERY) == []

    during(work).create()


SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def signing(database_template: Template) -> Iterator[RunningService]:
    """A service whose secret we know, so that we can sign what we like."""
    with hosted(database_template.clone(), hmac_secret=Secret(SECRET * 2)) as running:
        yield running


def a_transaction_token(node: str, *, secret: str = SECRET * 2, age_s: int = 0) -> str:
    tokens = TransactionTokens(
        bytes.fromhex(secret), node=node, ttl=90, clock=lambda: system_clock() - age_s * 1_000_000
    )
    return tokens.sign(TransactionId(UNKNOWN), "")


FAILING = [
    ("UNAUTHORIZED: invalid transaction token", lambda _node: "nonsense"),
    ("UNAUTHORIZED: invalid transaction token", lambda node: a_transaction_token(node, secret="f" * 64)),
    ("TRANSACTION_EXPIRED: transaction token has expired", lambda node: a_transaction_token(node, age_s=200)),
    ("TRANSACTION_NOT_FOUND: transaction not found or no longer active", a_transaction_token),
    ("TRANSACTION_NODE_UNAVAILABLE: transaction node is not available", lambda _node: a_transaction_token("gone")),
]


@pytest.mark.parametrize("kind", [kind for kind, rpc in RPC_OF.items() if rpc != "entityModelManage"])
@pytest.mark.parametrize(("message", "token"), FAILING)
def test_a_token_that_is_no_good_is_answered_alike_whatever_was_asked(
    signing: RunningService, tenant: str, kind: str, message: str, token: Callable[[str], str]
) -> None:
    joined = Rpcs(signing.grpc, a_token(tenant)).joining(token(signing.parts.node.id))
    unreadable = an_event(kind, id=None)
    [response] = joined.send(unreadable)
    writes = RPC_OF[kind].startswith("entityManage")
    assert response.type == ("EntityTransactionResponse" if writes else "EntityResponse")
    known = "ce-7" if RPC_OF[kind] in UNARY else ""
    assert payload_of(response) == {
        "id": known,
        "requestId": known,
        "success": False,
        "error": {"code": "CLIENT_ERROR", "message": message},
        **({"transactionInfo": {"entityIds": []}} if writes else {"payload": {"type": "JSON"}}),
    }


def test_credentials_are_judged_before_the_token(signing: RunningService) -> None:
    stranger = Rpcs(signing.grpc, "nonsense").joining("nonsense")
    assert stranger.status(an_event("EntityGetRequest"))[1] == "authentication failed"


def test_an_empty_token_is_none(rpcs: Rpcs) -> None:
    rpcs.joining("").refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=UNKNOWN)


def test_nobody_joins_the_transaction_of_another_tenant(
    service: RunningService, rpcs: Rpcs, during: Callable[[Work], Api]
) -> None:
    answers: list[Json] = []

    def work(joined: Rpcs) -> None:
        stranger = Rpcs(service.grpc, a_token("another-tenant")).joining(joined.tx_token)
        answers.append(stranger.one("EntityGetRequest", entityId=UNKNOWN))

    during(work).create()
    assert answers[0]["error"]["message"] == "FORBIDDEN: transaction belongs to a different tenant"


def test_a_token_is_of_no_use_when_its_transaction_has_ended(rpcs: Rpcs, during: Callable[[Work], Api]) -> None:
    tokens: list[str | None] = []
    during(lambda joined: tokens.append(joined.tx_token)).create()
    rpcs.joining(tokens[0]).refused("EntityGetRequest", "TRANSACTION_NOT_FOUND", entityId=UNKNOWN)
