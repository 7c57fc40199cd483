"""Jobs that calculation members do: pushed to those who have the job type as a tag."""

import threading
import time
from collections.abc import Callable

import pytest

from statewright.ids import TenantId
from statewright.sdk import Node, NonRetryable
from statewright.services.processes import push
from statewright.storage.pool import Pool
from statewright.storage.processes.jobs import PushRoute
from tests.integration.steps.conftest import PATIENCE_S, THREE_STEPS, definition, end, service_task
from tests.integration.steps.test_entity_api import Steps
from tests.integration.transactions.conftest import Serving
from tests.integration.transactions.conftest import serving as serving
from tests.service import RunningService, eventually


def soon(fact: Callable[[], object]) -> None:
    """Waits for a fact that nobody announces; on a busy machine, too."""
    eventually(fact, within_s=PATIENCE_S)


@pytest.fixture
def steps(service: RunningService, tenant: str) -> Steps:
    return Steps(service, tenant)


def test_a_member_with_the_job_type_as_a_tag_does_the_job(steps: Steps, serving: Serving):
    node = Node(tags=["Greet"])

    @node.processor("greet")
    def greet(variables: dict[str, object]) -> dict[str, object]:
        return {"greeting": f"hello {variables['name']}"}

    serving(node)
    steps.upload(definition("d", service_task("greet", "end"), end()))
    instance = steps.start("d", name="Ada")
    soon(lambda: steps.read(instance).status == "COMPLETED")
    assert steps.read(instance).variables == {"name": "Ada", "greeting": "hello Ada"}


def test_members_and_workers_share_a_chain(steps: Steps, serving: Serving):
    node = Node(tags=["a", "c"])

    @node.processor("a")
    def first(variables: dict[str, object]) -> dict[str, object]:
        return {"a": 1}

    @node.processor("c")
    def last(variables: dict[str, object]) -> dict[str, object]:
        return {"c": 1}

    serving(node)
    steps.upload(THREE_STEPS)
    instance = steps.start("chain")
    soon(lambda: steps.read(instance).current_step_ids == ("b",))
    steps.do("b", b=1)
    soon(lambda: steps.read(instance).status == "COMPLETED")
    assert steps.read(instance).variables == {"a": 1, "b": 1, "c": 1}


def test_a_failure_of_a_member_is_tried_again_while_there_are_retries(steps: Steps, serving: Serving):
    node, tries = Node(tags=["flaky"]), []

    @node.processor("flaky")
    def flaky(variables: dict[str, object]) -> dict[str, object]:
        tries.append(1)
        raise ValueError(f"boom {len(tries)}")

    serving(node)
    steps.upload(definition("d", service_task("flaky", "end", retryCount=2), end()))
    instance = steps.start("d")
    soon(lambda: steps.read(instance).status == "FAILED")
    assert len(tries) == 3
    assert "boom 3" in str(steps.read(instance).failure_reason)


def test_a_failure_that_a_member_calls_final_is_not_tried_again(steps: Steps, serving: Serving):
    node, tries = Node(tags=["hopeless"]), []

    @node.processor("hopeless")
    def hopeless(variables: dict[str, object]) -> dict[str, object]:
        tries.append(1)
        raise NonRetryable("no such customer")

    serving(node)
    steps.upload(definition("d", service_task("hopeless", "end", retryCount=2), end()))
    instance = steps.start("d")
    soon(lambda: steps.read(instance).status == "FAILED")
    assert len(tries) == 1
    assert "no such customer" in str(steps.read(instance).failure_reason)


def test_a_job_waits_in_the_queue_until_a_member_for_it_joins(steps: Steps, serving: Serving):
    steps.upload(definition("d", service_task("later", "end"), end()))
    instance = steps.start("d")
    node, done = Node(tags=["later"]), threading.Event()

    @node.processor("later")
    def later(variables: dict[str, object]) -> None:
        done.set()

    serving(node)
    soon(done.is_set)
    soon(lambda: steps.read(instance).status == "COMPLETED")


def test_a_definition_names_the_members_of_its_jobs(steps: Steps, serving: Serving):
    here, there = Node(tags=["EU", "Gpu", "more"]), Node(tags=["eu", "rate"])
    asked: list[str] = []

    @here.processor("rate")
    def rate(variables: dict[str, object]) -> dict[str, object]:
        asked.append("here")
        return {"rated": True}

    @there.processor("rate")
    def rate_elsewhere(variables: dict[str, object]) -> dict[str, object]:
        asked.append("there")
        return {}

    serving(there)
    serving(here)
    tagged = {"dispatch": {"rate": {"calculationNodesTags": " gpu; EU"}}}
    steps.upload(
        definition("tagged", service_task("rate", "end"), end(), metadata=tagged),
        definition("plain", service_task("rate", "end"), end()),
    )
    instances = [steps.start("tagged") for _ in range(3)]
    soon(lambda: all(steps.read(instance).status == "COMPLETED" for instance in instances))
    assert asked == ["here"] * 3
    assert all(steps.read(instance).variables == {"rated": True} for instance in instances)
    plain = steps.start("plain")
    soon(lambda: steps.read(plain).status == "COMPLETED")
    assert asked == [*["here"] * 3, "there"]


def test_a_member_without_the_tag_gets_nothing(steps: Steps, serving: Serving):
    node = Node(tags=["other"])

    @node.processor("mine")
    def mine(variables: dict[str, object]) -> None:
        raise AssertionError

    serving(node)
    steps.upload(definition("d", service_task("mine", "end"), end()))
    instance = steps.start("d")
    steps.do("mine")
    assert steps.read(instance).status == "COMPLETED"


def test_jobs_that_no_member_may_do_cost_no_look_for_routes(
    steps: Steps, serving: Serving, tenant: str, monkeypatch: pytest.MonkeyPatch
):
    """A look costs the database as much as many polls; without a hint there is one a second."""
    looks: list[str] = []
    fetch_routes = push.queue.fetch_routes

    async def count(pool: Pool, of: TenantId, language: str) -> list[PushRoute]:
        if of == tenant and language == "steps":
            looks.append(language)
        return await fetch_routes(pool, of, language)

    node = Node(tags=["mine"])

    @node.processor("mine")
    def do(variables: dict[str, object]) -> dict[str, object]:
        return {}

    serving(node)
    monkeypatch.setattr(push.queue, "fetch_routes", count)
    steps.upload(definition("others", service_task("theirs", "end"), end()))
    began = time.monotonic()
    for _ in range(30):
        steps.start("others")
    assert len(looks) <= 3 + (time.monotonic() - began)
    steps.upload(definition("own", service_task("mine", "end"), end()))
    instance = steps.start("own")
    soon(lambda: steps.read(instance).status == "COMPLETED")
