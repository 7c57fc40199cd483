"""The client that a function gets with its context: the same on a server and in the fake engine of unit tests."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from msgspec import Struct

from statewright.sdk import (
    Client,
    Conflicting,
    Entity,
    Invalid,
    Missing,
    Modified,
    Node,
    NotAllowed,
    RunFailed,
    TransactionOver,
    Unavailable,
    Unreachable,
)
from statewright.sdk.exchange import HttpResponse
from statewright.sdk.operations import Call
from statewright.sdk.testing import FakeEngine
from tests.builders import Json, a_processor, a_workflow, automated, manual, when
from tests.e2e.program import free_ports
from tests.integration.transactions.conftest import Serving, connected
from tests.service import Api, RunningService, a_token

NOTES = a_workflow("notes", OPEN=[manual("CLOSE", to="CLOSED")], CLOSED=[])

Work = Callable[[Client], Any]


class Note(Struct):
    text: str
    n: int = 0


class World(Protocol):
    """A place where a function can be given a client."""

    def inside(self, work: Work) -> None:
        """Do the work in a processor, in the transaction of its callout; it must succeed."""
        ...

    def failing_after(self, work: Work) -> None:
        """Do the work in a processor that fails then."""
        ...

    @property
    def outside(self) -> Client:
        """What somebody else sees."""
        ...


class Fake:
    """The fake engine."""

    def __init__(self) -> None:
        self.node = Node()
        self._work: Work = lambda _client: None
        self._fails = False

        @self.node.processor("work")
        def work(document: Json, context: Json) -> None:
            self._work(context.client)
            if self._fails:
                raise ValueError("on purpose")

        self.engine = FakeEngine(self.node)
        self.engine.lifecycle("note", 1, NOTES)
        self.outside = self.engine.client

    def inside(self, work: Work) -> None:
        done = self._called(work, fails=False)
        if done.exception is not None:
            raise done.exception

    def failing_after(self, work: Work) -> None:
        done = self._called(work, fails=True)
        assert (done.success, done.error) == (False, "on purpose")

    def _called(self, work: Work, *, fails: bool) -> Json:
        self._work, self._fails = work, fails
        return self.engine.process("work", {})


class Real:
    """A server and a node of the SDK."""

    def __init__(self, api: Api, serving: Serving) -> None:
        self._api = api
        self._work: Work = lambda _client: None
        self._fails = False
        self._raised: BaseException | None = None
        node = Node(tags=["node"])

        @node.processor("work")
        def work(document: Json, context: Json) -> None:
            try:
                self._work(context.client)
            except BaseException as error:
                self._raised = error
                raise
            if self._fails:
                raise ValueError("on purpose")

        serving(node)
        api.a_model(NOTES, model="note/1", sample={"text": "", "n": 0})
        flow = a_workflow(NEW=[automated("WORK", to="DONE", processors=[a_processor("work")])], DONE=[])
        self._model = api.a_model(flow, model="job/1", sample={"n": 0})
        self.outside = Client.over(Through(api))

    def inside(self, work: Work) -> None:
        response = self._called(work, fails=False)
        if self._raised is not None:
            raise self._raised
        assert response.status_code == 200, response.text

    def failing_after(self, work: Work) -> None:
        response = self._called(work, fails=True)
        assert (response.status_code, "on purpose" in response.text) == (400, True)

    def _called(self, work: Work, *, fails: bool) -> Json:
        self._work, self._fails, self._raised = work, fails, None
        return self._api.post(f"/entity/JSON/{self._model}", {"n": 1})


class Through:
    """A transport over the tests' own HTTP client."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def send(self, call: Call) -> HttpResponse:
        query = "&".join(f"{name}={value}" for name, value in call.query)
        headers = {name.replace("-", "_"): text for name, text in call.headers.items()}
        response = self._api.request(call.method, f"{call.path}?{query}", call.body or b"", **headers)
        return HttpResponse(response.status_code, response.content)

    async def send_async(self, call: Call) -> HttpResponse:
        return self.send(call)


@pytest.fixture(params=["server", "fake"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        yield Fake()
    else:
        yield Real(request.getfixturevalue("api"), request.getfixturevalue("serving"))


def texts(entities: list[Entity]) -> list[str]:
    return sorted(entity.view(Note).text for entity in entities)


def test_what_is_created_inside_is_seen_inside_only_until_the_transition_is_made(world: World) -> None:
    ids: dict[str, str] = {}

    def work(client: Client) -> None:
        written = client.create("note", 1, Note("new", 1))
        ids["note"], ids["transaction"] = written.id, written.transaction_id
        assert client.get(written.id).data == {"text": "new", "n": 1}
        assert (client.count("note", 1), world.outside.count("note", 1)) == (1, 0)
        with pytest.raises(Missing) as refused:
            world.outside.get(written.id)
        assert (refused.value.code, refused.value.status) == ("ENTITY_NOT_FOUND", 404)

    world.inside(work)
    note = world.outside.get(ids["note"])
    assert (note.model, note.model_version, note.state) == ("note", 1, "OPEN")
    assert note.view(Note) == Note("new", 1)
    assert note.transaction_id == ids["transaction"]


def test_what_was_read_inside_can_be_demanded_again_inside(world: World) -> None:
    """Of committed versions and of those that the transaction has written itself."""
    kept = world.outside.create("note", 1, {"text": "kept", "n": 1})

    def work(client: Client) -> None:
        changed = client.patch(kept.id, {"n": 2}, if_match=kept.transaction_id)
        client.patch(kept.id, {"n": 3}, if_match=client.get(kept.id).transaction_id)
        client.update(kept.id, {"text": "kept", "n": 4}, if_match=changed.transaction_id)
        with pytest.raises(Modified):
            client.patch(kept.id, {"n": 5}, if_match=kept.transaction_id)

    world.inside(work)
    assert world.outside.get(kept.id).view(Note).n == 4


def test_all_entities_are_read_page_by_page_inside_and_outside(world: World) -> None:
    world.outside.create("note", 1, {"text": "a"})

    def work(client: Client) -> None:
        client.create_many("note", 1, [{"text": "b"}, {"text": "c"}])
        assert texts(list(client.iterate("note", 1, size=2))) == ["a", "b", "c"]
        assert texts(list(world.outside.iterate("note", 1, size=2))) == ["a"]

    world.inside(work)
    assert texts(list(world.outside.iterate("note", 1))) == ["a", "b", "c"]


def test_what_was_written_inside_is_undone_when_the_function_fails(world: World) -> None:
    kept = world.outside.create("note", 1, {"text": "kept", "n": 1}).id

    def work(client: Client) -> None:
        client.create("note", 1, {"text": "lost"})
        client.delete(kept)

    world.failing_after(work)
    assert texts(world.outside.page("note", 1)) == ["kept"]


def test_a_document_is_replaced_or_changed_in_part(world: World) -> None:
    note = world.outside.create("note", 1, {"text": "a", "n": 1}).id

    def work(client: Client) -> None:
        client.update(note, {"text": "b", "n": 2})
        client.patch(note, {"n": 3})

    world.inside(work)
    assert world.outside.get(note).data == {"text": "b", "n": 3}


def test_a_transition_is_made_with_or_without_a_new_document(world: World) -> None:
    one, two = world.outside.create_many("note", 1, [{"text": "one"}, {"text": "two"}]).entity_ids

    def work(client: Client) -> None:
        assert client.transitions(one) == ["CLOSE"]
        client.transition(one, "CLOSE")
        client.update(two, {"text": "second"}, transition="CLOSE")

    world.inside(work)
    seen = [world.outside.get(note) for note in (one, two)]
    assert [(note.state, note.view(Note).text) for note in seen] == [("CLOSED", "one"), ("CLOSED", "second")]


def test_a_transition_that_is_not_there_is_missing_and_leaves_the_transaction_usable(world: World) -> None:
    note = world.outside.create("note", 1, {"text": "a"}).id

    def work(client: Client) -> None:
        with pytest.raises(Missing, match="TRANSITION_NOT_FOUND"):
            client.transition(note, "NOWHERE")
        client.transition(note, "CLOSE")

    world.inside(work)
    assert world.outside.get(note).state == "CLOSED"


def test_a_version_may_be_demanded(world: World) -> None:
    note = world.outside.create("note", 1, {"text": "a"})

    def work(client: Client) -> None:
        with pytest.raises(Modified) as refused:
            client.update(note.id, {"text": "b"}, if_match="00000000-0000-1000-8000-000000000000")
        assert refused.value.code == "ENTITY_MODIFIED"
        client.update(note.id, {"text": "c"}, if_match=note.transaction_id)

    world.inside(work)
    assert world.outside.get(note.id).view(Note).text == "c"


def test_a_search_inside_finds_what_was_written_there(world: World) -> None:
    world.outside.create_many("note", 1, [{"text": "old", "n": number} for number in range(3)])

    def work(client: Client) -> None:
        client.create("note", 1, {"text": "new", "n": 9})
        late = when("$.n", "GREATER_THAN", 0)
        assert [note.view(Note).n for note in client.search("note", 1, late, sort=["n:desc"])] == [9, 2, 1]
        assert len(world.outside.search("note", 1, late)) == 2
        with pytest.raises(Invalid) as refused:
            client.search("note", 1, late, limit=2)
        assert refused.value.code == "SEARCH_RESULT_LIMIT"
        with pytest.raises(Invalid):
            client.search("note", 1, {"type": "nonsense"})

    world.inside(work)


def test_a_page_is_ordered_by_id(world: World) -> None:
    ids = world.outside.create_many("note", 1, [{"text": str(number)} for number in range(5)]).entity_ids
    seen: list[str] = []

    def work(client: Client) -> None:
        for number in range(3):
            seen.extend(note.id for note in client.page("note", 1, size=2, number=number))

    world.inside(work)
    assert seen == sorted(ids)


# What only a server can refuse.


def test_a_document_that_does_not_fit_is_invalid(api: Api, serving: Serving) -> None:
    world = Real(api, serving)

    def work(client: Client) -> None:
        with pytest.raises(Invalid) as refused:
            client.create("note", 1, {"text": {"no": "text"}})
        assert refused.value.code in {"INCOMPATIBLE_TYPE", "POLYMORPHIC_SLOT", "BAD_REQUEST"}
        assert refused.value.problem.instance.endswith("/entity/JSON/note/1")

    world.inside(work)


def test_a_run_that_fails_in_a_callback_says_so(api: Api, serving: Serving) -> None:
    world = Real(api, serving)
    never = manual("GO", to="DONE", criterion=when("$.n", "EQUALS", 99))
    api.a_model(a_workflow(NEW=[never], DONE=[]), model="guarded/1", sample={"n": 0})
    nobody = automated("GO", to="DONE", processors=[a_processor(tags="nobody")])
    api.a_model(a_workflow(NEW=[nobody], DONE=[]), model="waiting/1", sample={"n": 0})

    def work(client: Client) -> None:
        guarded = client.create("guarded", 1, {"n": 1}).id
        with pytest.raises(RunFailed, match="criterion not matched"):
            client.transition(guarded, "GO")
        with pytest.raises(Unavailable) as refused:
            client.create("waiting", 1, {"n": 1})
        assert refused.value.retryable

    world.inside(work)


def test_a_unique_key_that_is_taken_conflicts(api: Api, serving: Serving) -> None:
    world = Real(api, serving)
    api.import_model("user/1", {"name": ""})
    assert (
        api.put("/model/user/1/unique-keys", {"uniqueKeys": [{"id": "name", "fields": ["$.name"]}]}).status_code == 200
    )
    api.lock("user/1")
    world.outside.create("user", 1, {"name": "ada"})

    def work(client: Client) -> None:
        with pytest.raises(Conflicting) as refused:
            client.create("user", 1, {"name": "ada"})
        assert refused.value.code == "UNIQUE_VIOLATION"

    world.inside(work)


def test_a_client_that_is_kept_too_long_hears_that_its_transaction_is_over(api: Api, serving: Serving) -> None:
    world, kept = Real(api, serving), list[Client]()
    world.inside(kept.append)
    with pytest.raises(TransactionOver) as refused:
        kept[0].count("note", 1)
    assert refused.value.code == "TRANSACTION_NOT_FOUND"


def test_without_a_transaction_requests_are_on_their_own(api: Api, serving: Serving) -> None:
    node = Node(tags=["node"])

    @node.processor("work")
    def work(document: Json, context: Json) -> None:
        assert not context.client.joins
        context.client.create("note", 1, {"text": "durable"})
        raise ValueError("on purpose")

    serving(node)
    api.a_model(NOTES, model="note/1", sample={"text": "", "n": 0})
    apart = a_processor("work", mode="COMMIT_BEFORE_DISPATCH")
    api.a_model(a_workflow(NEW=[automated("WORK", to="DONE", processors=[apart])], DONE=[]))
    assert api.post("/entity/JSON/prize/1", {"year": 1}).status_code == 400
    assert texts(Client.over(Through(api)).page("note", 1)) == ["durable"]


def test_async_functions_have_a_client_to_await_and_cannot_take_the_other(api: Api, serving: Serving) -> None:
    node, raised = Node(tags=["node"]), list[str]()

    @node.processor("work")
    async def work(document: Json, context: Json) -> None:
        try:
            context.client.count("note", 1)
        except RuntimeError as error:
            raised.append(str(error))
        written = await context.async_client.create("note", 1, {"text": "async"})
        assert (await context.async_client.get(written.id)).view(Note).text == "async"

    serving(node)
    api.a_model(NOTES, model="note/1", sample={"text": "", "n": 0})
    api.a_model(a_workflow(NEW=[automated("WORK", to="DONE", processors=[a_processor("work")])], DONE=[]))
    api.create()
    assert "async_client" in raised[0]
    assert texts(Client.over(Through(api)).page("note", 1)) == ["async"]


def test_a_refusal_that_nobody_handles_fails_the_transition_with_its_words(api: Api, serving: Serving) -> None:
    node = Node(tags=["node"])

    @node.processor("work")
    def work(document: Json, context: Json) -> None:
        context.client.get("00000000-0000-1000-8000-000000000000")

    serving(node)
    api.a_model(a_workflow(NEW=[automated("WORK", to="DONE", processors=[a_processor("work")])], DONE=[]))
    problem = api.post("/entity/JSON/prize/1", {"year": 1}).json()
    assert "ENTITY_NOT_FOUND" in problem["detail"]


def test_bad_credentials_are_tried_once_more_with_a_new_token(service: RunningService, tenant: str, api: Api) -> None:
    good = a_token(tenant, "node", user_roles=None, scopes=["ROLE_M2M"])
    tokens = iter([good, "no.good.token", good, "no.good", "no.good.either"])  # the first is for the stream
    node, seen = Node(tags=["node"]), list[str]()

    @node.processor("work")
    def work(document: Json, context: Json) -> None:
        for _ in range(2):
            try:
                seen.append(str(context.client.count("note", 1)))
            except NotAllowed as error:
                seen.append(error.code)

    api.a_model(NOTES, model="note/1", sample={"text": "", "n": 0})
    api.a_model(a_workflow(NEW=[automated("WORK", to="DONE", processors=[a_processor("work")])], DONE=[]))
    with connected(service, tenant, node, lambda: next(tokens)):
        api.create()
    assert seen == ["0", "UNAUTHORIZED"]


def test_a_server_that_is_not_there_is_unreachable(service: RunningService, tenant: str, api: Api) -> None:
    node, failures = Node(tags=["node"]), list[str]()
    [port] = free_ports("NOBODY").values()

    @node.processor("work")
    async def work(document: Json, context: Json) -> None:
        with pytest.raises(Unreachable) as failed:
            await context.async_client.count("note", 1)
        failures.append(str(failed.value))
        assert failed.value.retryable

    api.a_model(a_workflow(NEW=[automated("WORK", to="DONE", processors=[a_processor("work")])], DONE=[]))
    with connected(service, tenant, node, api=f"http://127.0.0.1:{port}/api"):
        api.create()
    assert failures[0].startswith(f"GET /api/entity/stats/note/1 at http://127.0.0.1:{port}: ")
