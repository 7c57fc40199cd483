"""Two services on one database are one service (docs/reference/models.md#consistency-of-models,
docs/reference/entities.md#isolation).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext

import httpx
import pytest

from tests.builders import SAMPLE, a_workflow
from tests.database import Template
from tests.service import Api, eventually, hosted

ROUNDS = 12


@pytest.fixture(scope="module")
def services(database_template: Template) -> Iterator[tuple[Callable[[str], Api], Callable[[str], Api]]]:
    """The APIs of two services, by tenant."""
    with ExitStack() as stack:
        one = stack.enter_context(hosted(database_template.clone()))
        other = stack.enter_context(hosted(nullcontext(one.database)))
        yield one.api, other.api


@pytest.fixture
def here(services: tuple[Callable[[str], Api], Callable[[str], Api]], tenant: str) -> Api:
    return services[0](tenant)


@pytest.fixture
def there(services: tuple[Callable[[str], Api], Callable[[str], Api]], tenant: str) -> Api:
    return services[1](tenant)


def test_what_one_commits_the_other_reads_at_once(here: Api, there: Api) -> None:
    here.a_model()
    for year in range(20):
        saved = here.create({"year": year})
        assert there.read(saved.id)["meta"]["transactionId"] == saved.transaction
        moved = there.update(saved.id, {"year": -year})
        assert here.read(saved.id)["meta"]["transactionId"] == moved.transaction


def test_a_model_that_was_unknown_is_looked_for_again(here: Api, there: Api) -> None:
    assert there.post("/entity/JSON/prize/1", SAMPLE).status_code == 404
    here.a_model()
    there.create()


def test_a_new_workflow_gets_around(here: Api, there: Api) -> None:
    here.a_model(a_workflow(First=[]))
    assert there.state(there.create().id) == "First"
    here.import_workflows(a_workflow(Second=[]))
    eventually(lambda: there.state(there.create().id) == "Second")


def test_locks_and_schemas_get_around(here: Api, there: Api) -> None:
    here.a_model(sample={"year": 1})
    there.delete(f"/entity/{there.create({'year': 1}).id}")
    here.put("/model/prize/1/unlock")
    eventually(lambda: there.post("/entity/JSON/prize/1", {"year": 1}).status_code == 409)
    here.import_model(sample={"motivation": "x y"})
    here.lock()
    eventually(lambda: there.post("/entity/JSON/prize/1", {"motivation": "z"}).status_code == 200)
    for envelope in here.get("/entity/prize/1").json():
        there.delete(f"/entity/{envelope['meta']['id']}")
    there.put("/model/prize/1/unlock")
    there.delete("/model/prize/1")
    eventually(lambda: here.post("/entity/JSON/prize/1", {}).status_code == 404)


def test_of_clients_of_both_that_demand_the_same_version_exactly_one_wins(here: Api, there: Api) -> None:
    here.a_model()
    saved = here.create()
    version = saved.transaction
    with ThreadPoolExecutor(16) as crowd:
        for _ in range(ROUNDS):

            def attempt(client: int, version: str = version) -> httpx.Response:
                return (here, there)[client % 2].put(f"/entity/JSON/{saved.id}", SAMPLE, If_Match=version)

            responses = list(crowd.map(attempt, range(16)))
            assert Counter(response.status_code for response in responses) == {200: 1, 412: 15}
            [winner] = [response for response in responses if response.status_code == 200]
            version = winner.json()["transactionId"]
    assert len(here.get(f"/entity/{saved.id}/changes").json()) == ROUNDS + 1
