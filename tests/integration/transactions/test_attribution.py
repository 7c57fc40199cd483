"""Whom writes are attributed to when members call back, and across a segment boundary
(docs/reference/workflows.md#attribution-of-runs).
"""

from statewright.sdk import Node
from tests.builders import Json, a_processor, a_workflow, manual
from tests.integration.transactions.conftest import Callback, JoinedApi, Serving
from tests.service import Api, RunningService

BOB = {"id": "bob", "kind": "user"}
NODE = {"id": "node", "kind": "service"}
ALICE = {"id": "alice", "kind": "user"}


def by(api: Api, entity: str) -> list[tuple[str, Json]]:
    """Attributed and executing principals of all changes, oldest first."""
    return [(change["user"], change["executedBy"]) for change in reversed(api.get(f"/entity/{entity}/changes").json())]


def fired(api: Api, mode: str, **config: Json) -> str:
    """An entity that went through a processor."""
    go = manual("GO", to="DONE", processors=[a_processor(mode=mode, **config)])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go], DONE=[]))).id
    api.update(entity, fire="GO")
    return entity


def test_a_user_who_joins_with_a_token_of_his_own_is_the_author(
    api: Api, service: RunningService, tenant: str, serving: Serving
) -> None:
    api.a_model(model="note/1", sample={"text": ""})
    doomed = api.create({"text": "doomed"}, model="note/1").id
    node, notes = Node(tags=["node"]), list[str]()

    @node.processor("enrich")
    def enrich(document: Json, context: Json) -> None:
        bob = service.api(tenant, "bob")
        joined = JoinedApi(bob.url, bob.token, context.tx_token)
        notes.append(joined.create({"text": "mine"}, model="note/1").id)
        assert joined.delete(f"/entity/{doomed}").status_code == 200

    serving(node)
    entity = fired(api, "SYNC")
    assert by(api, notes[0]) == [("bob", BOB)]
    assert by(api, doomed)[-1] == ("bob", BOB)
    assert by(api, entity)[-1] == ("alice", ALICE)


def test_the_second_segment_belongs_to_whom_the_first_one_did(api: Api, serving: Serving, callback: Callback) -> None:
    api.a_model(model="note/1", sample={"text": ""})
    node, notes = Node(tags=["node"]), list[str]()

    @node.processor("enrich")
    def enrich(document: Json, context: Json) -> Json:
        notes.append(callback(context).create({"text": "joined"}, model="note/1").id)
        return document | {"motivation": "enriched"}

    serving(node)
    entity = fired(api, "COMMIT_BEFORE_DISPATCH", startNewTxOnDispatch=True)
    assert by(api, entity) == [("alice", ALICE)] * 3
    assert by(api, notes[0]) == [("alice", NODE)]


def test_outside_of_a_transaction_a_member_writes_in_its_own_name(api: Api, serving: Serving) -> None:
    api.a_model(model="note/1", sample={"text": ""})
    node, notes = Node(tags=["node"]), list[str]()

    @node.processor("enrich")
    def enrich(document: Json, context: Json) -> None:
        notes.append(context.client.create("note", 1, {"text": "alone"}).id)

    serving(node)
    fired(api, "COMMIT_BEFORE_DISPATCH")
    assert by(api, notes[0]) == [("node", NODE)]
