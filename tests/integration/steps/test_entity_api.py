"""Instances, definitions and user tasks under ``/api``: read and searched like any entity, written by nobody else."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import quote

import pytest

from statewright.ids import system_clock
from statewright.net import ulid_to_uuid
from statewright.steps import Instance
from statewright.steps.instance import DEFINITION, INSTANCE, USER_TASK
from tests.builders import Json
from tests.integration.steps.conftest import (
    PATIENCE_S,
    THREE_STEPS,
    Host,
    a_caller,
    definition,
    end,
    step,
)
from tests.service import Api, RunningService, done, names, refused

T = TypeVar("T")


class Steps:
    """The step engine of the shared service, called from a test's thread."""

    def __init__(self, service: RunningService, tenant: str) -> None:
        self._loop = service.loop
        self.host = Host(service.parts.runtime, a_caller(tenant), system_clock)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self.host, name)
        return lambda *args, **kwargs: self.run(operation(*args, **kwargs))

    def run(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


@pytest.fixture
def steps(service: RunningService, tenant: str) -> Steps:
    return Steps(service, tenant)


def entity_of(instance: Instance) -> str:
    found = ulid_to_uuid(instance.id)
    assert found is not None
    return found


REVIEW = definition("review", step("review", "USER_TASK", "end", jobType="form"), end())
FAILING = definition("failing", step("route", "DECISION", conditionalNextSteps={"ok == true": "end"}), end())


def search(api: Api, model: str, *conditions: Json) -> list[Json]:
    body = {"type": "group", "operator": "AND", "conditions": list(conditions)}
    response = api.post(f"/search/direct/{model}/1?limit=1000", body)
    assert response.status_code == 200, response.text
    text = response.text.strip()
    return [json.loads(line) for line in text.splitlines()] if not text.startswith("[") else json.loads(text)


def simple(path: str, operator: str, value: Json) -> Json:
    return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}


def test_an_instance_is_an_entity_whose_state_is_its_status(api: Api, steps: Steps):
    steps.upload(THREE_STEPS)
    instance = steps.start("chain", "K-1", amount=5)
    read = api.read(entity_of(instance))
    assert read["meta"]["state"] == "ACTIVE"
    data = read["data"]
    assert (data["id"], data["definitionId"], data["status"], data["businessKey"]) == (
        instance.id,
        "chain",
        "ACTIVE",
        "K-1",
    )
    assert data["variables"] == {"amount": 5}


def test_every_advance_is_one_version_that_can_be_read_later(api: Api, steps: Steps):
    steps.upload(THREE_STEPS)
    instance = steps.start("chain")
    first = api.read(entity_of(instance))["meta"]
    for name in "abc":
        steps.do(name, **{name: 1})
    assert len(done(api.get(f"/entity/{entity_of(instance)}/changes"))) == 4
    past = api.read(entity_of(instance), f"?pointInTime={quote(first['lastUpdateTime'])}")
    assert past["data"]["currentStepIds"] == ["a"]
    by_transaction = api.read(entity_of(instance), f"?transactionId={first['transactionId']}")
    assert by_transaction["data"]["variables"] == {}
    assert api.read(entity_of(instance))["data"]["variables"] == {"a": 1, "b": 1, "c": 1}


def test_the_audit_trail_tells_what_every_advance_did(api: Api, steps: Steps):
    steps.upload(THREE_STEPS)
    instance = steps.start("chain")
    steps.do("a")
    path = f"/audit/entity/{entity_of(instance)}?eventType=StateMachine&limit=1000"
    events = list(reversed(done(api.get(path))["items"]))
    kinds = [event["data"]["kind"] for event in events if event["eventType"] == "STATE_PROCESS_RESULT"]
    assert kinds == ["instance-started", "step-entered", "step-completed", "step-entered"]
    assert names(events)[-1] == "TRANSITION_MAKE"


def test_instances_are_searched_by_what_is_in_their_variables(api: Api, steps: Steps):
    steps.upload(THREE_STEPS, REVIEW)
    for amount in (500, 1500, 2500):
        steps.start("review", customer={"name": f"C{amount}"}, amount=amount)
    steps.start("chain", amount="much")
    waiting = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "WAITING"}
    found = search(api, INSTANCE.key.name, waiting, simple("$.variables.amount", "GREATER_THAN", 1000))
    assert sorted(one["data"]["variables"]["amount"] for one in found) == [1500, 2500]
    [one] = search(api, INSTANCE.key.name, simple("$.variables.customer.name", "EQUALS", "C500"))
    assert one["data"]["definitionId"] == "review"
    [one] = search(api, INSTANCE.key.name, simple("$.variables.amount", "CONTAINS", "mu"))
    assert one["meta"]["state"] == "ACTIVE"


def test_definitions_and_user_tasks_are_entities_too(api: Api, steps: Steps):
    steps.upload(REVIEW)
    instance = steps.start("review", amount=7)
    [version] = search(api, DEFINITION.key.name, simple("$.id", "EQUALS", "review"))
    assert (version["meta"]["state"], version["data"]["version"]) == ("PUBLISHED", 1)
    [task] = search(api, USER_TASK.key.name, simple("$.instanceId", "EQUALS", instance.id))
    assert (task["meta"]["state"], task["data"]["payload"]) == ("OPEN", {"amount": 7})
    steps.approve(instance, "review", "carol", ok=True)
    [task] = search(api, USER_TASK.key.name, simple("$.instanceId", "EQUALS", instance.id))
    assert task["meta"]["state"] == "COMPLETED"
    assert (task["data"]["result"], task["data"]["completedBy"]) == ({"ok": True}, "carol")


def test_an_instance_is_cancelled_by_its_transition(api: Api, steps: Steps):
    steps.upload(THREE_STEPS)
    instance = steps.start("chain")
    saved = api.update(entity_of(instance), {"reason": "enough"}, fire="cancel")
    cancelled = steps.read(instance)
    assert (cancelled.status, cancelled.failure_reason) == ("CANCELLED", "enough")
    assert api.read(entity_of(instance))["meta"]["transactionId"] == saved.transaction
    assert steps.claim("a") == ()
    refused(api.put(f"/entity/JSON/{entity_of(instance)}/cancel", {}), 404, "TRANSITION_NOT_FOUND")


def test_a_failed_instance_is_retried_by_its_transition(api: Api, steps: Steps):
    steps.upload(FAILING)
    instance = steps.start("failing")
    assert api.state(entity_of(instance)) == "FAILED"
    api.update(entity_of(instance), {"stepId": "route", "variables": {"ok": True}}, fire="retry")
    assert steps.read(instance).status == "COMPLETED"


def test_a_retry_without_a_step_means_the_one_that_failed(api: Api, steps: Steps):
    steps.upload(FAILING)
    instance = steps.start("failing")
    api.update(entity_of(instance), {"variables": {"ok": False}}, fire="retry")
    assert steps.read(instance).status == "FAILED"
    assert len(steps.history(instance)) == 2


def test_a_user_task_is_completed_by_its_transition(api: Api, steps: Steps):
    steps.upload(REVIEW)
    instance = steps.start("review")
    [task] = search(api, USER_TASK.key.name, simple("$.instanceId", "EQUALS", instance.id))
    api.update(task["meta"]["id"], {"result": {"ok": True}}, fire="complete")
    completed = steps.read(instance)
    assert (completed.status, completed.variables) == ("COMPLETED", {"ok": True})
    assert api.read(task["meta"]["id"])["data"]["completedBy"] == "alice"


def test_a_version_that_the_client_demands_must_be_the_current_one(api: Api, steps: Steps):
    steps.upload(THREE_STEPS)
    instance = steps.start("chain")
    old = api.read(entity_of(instance))["meta"]["transactionId"]
    steps.do("a")
    path = f"/entity/JSON/{entity_of(instance)}/cancel"
    refused(api.put(path, {}, If_Match=old), 412, "ENTITY_MODIFIED")
    assert steps.read(instance).status == "ACTIVE"


@pytest.mark.parametrize("model", [INSTANCE.key.name, DEFINITION.key.name, USER_TASK.key.name])
def test_built_in_models_belong_to_the_step_engine(api: Api, steps: Steps, model: str):
    steps.upload(THREE_STEPS)
    steps.start("chain")
    for response in (
        api.put(f"/model/{model}/1/unlock"),
        api.delete(f"/model/{model}/1"),
        api.post(f"/model/import/JSON/SAMPLE_DATA/{model}/1", {"a": 1}),
        api.post(f"/model/{model}/1/changeLevel/STRUCTURAL"),
        api.post(f"/model/{model}/1/workflow/import", {"importMode": "REPLACE", "workflows": []}),
        api.post(f"/entity/JSON/{model}/1", {"id": "mine"}),
        api.delete(f"/entity/{model}/1"),
    ):
        refused(response, 403, "FORBIDDEN")
    assert done(api.get(f"/model/{model}/1/workflow/export"))["workflows"][0]["name"] == model


def test_nobody_writes_an_instance_past_the_step_engine(api: Api, steps: Steps):
    steps.upload(THREE_STEPS)
    instance = steps.start("chain")
    entity = entity_of(instance)
    document = api.read(entity)["data"]
    for response in (
        api.put(f"/entity/JSON/{entity}", document),
        api.put(f"/entity/JSON/{entity}/advance", document),
        api.put(f"/entity/JSON/{entity}/complete", document),
        api.request(
            "PATCH",
            f"/entity/JSON/{entity}",
            {"status": "COMPLETED"},
            Content_Type="application/merge-patch+json",
            If_Match="*",
        ),
        api.delete(f"/entity/{entity}"),
    ):
        refused(response, 403, "FORBIDDEN")
    refused(api.put(f"/entity/JSON/{entity}/nonsense", {}), 404, "TRANSITION_NOT_FOUND")
    assert steps.read(instance) == instance


def test_a_conflict_of_the_step_engine_is_a_conflict_here(api: Api, steps: Steps):
    steps.upload(THREE_STEPS)
    failed = steps.start("chain", "K-1")
    steps.fail(steps.job("a"), retryable=False)
    steps.start("chain", "K-1")
    refused(api.put(f"/entity/JSON/{entity_of(failed)}/retry", {}), 409, "STEP_CONFLICT")
    refused(api.put(f"/entity/JSON/{entity_of(failed)}/retry", {"stepId": 5}), 400, "BAD_REQUEST")


async def test_the_models_are_made_once_by_many_who_need_them_at_once(hosts: tuple[Host, Host]):
    await asyncio.gather(*(host.upload(definition(f"d{n}", end())) for n, host in enumerate((*hosts, *hosts))))
    assert await hosts[0].count("SELECT count(*) FROM model") == 3
    assert await hosts[0].all() == ()
