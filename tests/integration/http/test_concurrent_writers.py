"""Many clients and few entities: first committer wins, and everybody is told
(docs/reference/entities.md#transactions).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import httpx
import pytest

from tests.builders import a_workflow, automated, manual, when
from tests.service import Api, RunningService, done, refused

CLIENTS = 32
ROUNDS = 24
T = TypeVar("T")


@pytest.fixture(scope="module")
def crowd() -> Iterator[ThreadPoolExecutor]:
    """As many threads as clients."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        yield pool


def together(crowd: ThreadPoolExecutor, act: Callable[[int], T], clients: int = CLIENTS) -> list[T]:
    """What every client got; they start at the same moment."""
    start = Barrier(clients)

    def acted(client: int) -> T:
        start.wait()
        return act(client)

    return list(crowd.map(acted, range(clients)))


def statuses(responses: Sequence[httpx.Response]) -> Counter[int]:
    return Counter(response.status_code for response in responses)


def assert_unbroken(api: Api, entity: str, writers: Sequence[str]) -> None:
    """The history of an entity consists of exactly these transactions, one after the other."""
    history = done(api.get(f"/entity/{entity}/changes"))
    assert sorted(change["transactionId"] for change in history) == sorted(writers)
    assert len({change["timeOfChange"] for change in history}) == len(history)


def test_of_clients_that_demand_the_same_version_exactly_one_wins(crowd: ThreadPoolExecutor, api: Api) -> None:
    api.a_model(sample={"round": 1, "client": 1})
    saved = api.create({"round": 0, "client": 0})
    winners = [saved.transaction]
    for number in range(1, ROUNDS + 1):

        def attempt(client: int, number: int = number) -> httpx.Response:
            document = {"round": number, "client": client}
            return api.put(f"/entity/JSON/{saved.id}", document, If_Match=winners[-1])

        responses = together(crowd, attempt)
        assert statuses(responses) == {200: 1, 412: CLIENTS - 1}, f"round {number}"
        [(client, winner)] = [(n, response) for n, response in enumerate(responses) if response.status_code == 200]
        winners.append(winner.json()["transactionId"])
        assert api.read(saved.id)["data"] == {"round": number, "client": client}
        assert api.read(saved.id)["meta"]["transactionId"] == winners[-1]
        loser = next(response for response in responses if response.status_code == 412)
        assert refused(loser, 412, "ENTITY_MODIFIED")["properties"] == {
            "errorCode": "ENTITY_MODIFIED",
            "entityId": saved.id,
        }
    assert_unbroken(api, saved.id, winners)


def test_without_a_demand_losers_may_repeat_and_then_succeed(crowd: ThreadPoolExecutor, api: Api) -> None:
    api.a_model(sample={"client": 1})
    saved = api.create({"client": -1})

    def insist(client: int) -> tuple[str, int]:
        """The transaction that succeeded in the end, and how often it had to be repeated."""
        for refusals in range(200):
            response = api.put(f"/entity/JSON/{saved.id}", {"client": client})
            if response.status_code == 200:
                return response.json()["transactionId"], refusals
            problem = refused(response, 409, "CONFLICT")
            assert problem["properties"] == {"errorCode": "CONFLICT", "retryable": True}
            assert problem["detail"] == "CONFLICT: transaction conflict — retry"
        raise AssertionError("never succeeded")

    outcomes = [outcome for _ in range(3) for outcome in together(crowd, insist)]
    assert_unbroken(api, saved.id, [saved.transaction, *(transaction for transaction, _ in outcomes)])


def test_a_transition_that_leaves_its_state_is_fired_once(crowd: ThreadPoolExecutor, api: Api) -> None:
    api.a_model(a_workflow(New=[manual("TAKE", to="Taken")], Taken=[]))
    for _ in range(8):
        entity = api.create().id
        responses = together(crowd, lambda _, entity=entity: api.put(f"/entity/JSON/{entity}/TAKE", {}), clients=16)
        counts = statuses(responses)
        assert counts[200] == 1
        assert set(counts) <= {200, 404, 409}
        assert len(done(api.get(f"/entity/{entity}/changes"))) == 2


def test_an_entity_is_deleted_once_and_nobody_updates_it_afterwards(crowd: ThreadPoolExecutor, api: Api) -> None:
    api.a_model()
    for _ in range(8):
        entity = api.create().id

        def delete_or_update(client: int, entity: str = entity) -> httpx.Response:
            return api.put(f"/entity/JSON/{entity}", {}) if client % 2 else api.delete(f"/entity/{entity}")

        responses = together(crowd, delete_or_update, clients=12)
        assert statuses(responses[::2])[200] <= 1
        assert set(statuses(responses)) <= {200, 404, 409}
        while api.get(f"/entity/{entity}").status_code == 200:
            done(api.delete(f"/entity/{entity}"))
        history = done(api.get(f"/entity/{entity}/changes"))
        assert [change["changeType"] for change in history].count("DELETE") == 1
        assert history[0]["changeType"] == "DELETE"


def test_creates_never_meet(crowd: ThreadPoolExecutor, api: Api) -> None:
    api.a_model(
        a_workflow(
            New=[automated("ODD", to="Odd", criterion=when("$.year", "EQUALS", 1)), automated("EVEN", to="Even")],
            Odd=[],
            Even=[],
        )
    )
    made = [
        saved
        for _ in range(4)
        for saved in together(crowd, lambda client: (client % 2, api.create({"year": client % 2})))
    ]
    states = {envelope["meta"]["id"]: envelope for envelope in done(api.get("/entity/prize/1?pageSize=1000"))}
    assert len(states) == len(made) == 4 * CLIENTS
    assert {states[saved.id]["meta"]["state"] for odd, saved in made if odd} == {"Odd"}
    assert {states[saved.id]["meta"]["state"] for odd, saved in made if not odd} == {"Even"}


def test_no_write_is_lost_when_everybody_adds_to_a_counter(
    crowd: ThreadPoolExecutor, service: RunningService, tenant: str
) -> None:
    """Read, add one, write with If-Match: the sum tells whether a write was ever lost."""
    api = service.api(tenant)
    api.a_model(sample={"count": 1})
    entity = api.create({"count": 0}).id

    def add_three(_client: int) -> None:
        added = 0
        while added < 3:
            envelope = api.read(entity)
            count, version = envelope["data"]["count"], envelope["meta"]["transactionId"]
            response = api.put(f"/entity/JSON/{entity}", {"count": count + 1}, If_Match=version)
            assert response.status_code in {200, 412}, response.text
            added += response.status_code == 200

    together(crowd, add_three, clients=8)
    assert api.read(entity)["data"] == {"count": 24}


def test_readers_see_whole_versions_only(crowd: ThreadPoolExecutor, api: Api) -> None:
    """State, document and transaction of one read belong together, however busy the writers are."""
    api.a_model(a_workflow(A=[manual("TO_B", to="B")], B=[manual("TO_A", to="A")]), sample={"state": "x y"})
    entity = api.create({"state": "A"}).id

    def act(client: int) -> list[tuple[str, str]]:
        seen = []
        for _ in range(15):
            if client == 0:
                target = "B" if api.state(entity) == "A" else "A"
                api.put(f"/entity/JSON/{entity}/TO_{target}", {"state": target})
            envelope = api.read(entity)
            seen.append((envelope["data"]["state"], envelope["meta"]["state"]))
        return seen

    for seen in together(crowd, act, clients=8):
        assert all(document == state for document, state in seen), seen
