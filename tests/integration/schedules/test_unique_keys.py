"""Unique keys hold for what a scheduled transition writes, too (docs/reference/models.md#enforcement,
docs/reference/models.md#strict-validation quirk 7).
"""

from statewright.sdk import Node
from tests.builders import a_processor, a_workflow
from tests.integration.schedules.conftest import scheduled
from tests.service import Api, done, refused

SAMPLE = {"no": 1, "late": False}
RENUMBERED = a_workflow(
    Booked=[scheduled("renumber", to="Renumbered", processors=[a_processor("renumber")])], Renumbered=[]
)


def a_keyed_model(api: Api) -> str:
    api.import_model("order/1", SAMPLE)
    done(api.put("/model/order/1/unique-keys", {"uniqueKeys": [{"id": "by-no", "fields": ["$.no"]}]}))
    api.import_workflows(RENUMBERED, model="order/1")
    api.lock("order/1")
    return "order/1"


def test_a_fire_whose_processor_takes_a_value_that_is_taken_changes_nothing(api, serving, timers):
    node = Node(tags=["node"])
    node.processor("renumber")(lambda document: document | {"no": 7})
    serving(node)
    model = a_keyed_model(api)
    holder, entity = api.create({"no": 7}, model=model).id, api.create({"no": 1}, model=model).id
    before = api.read(entity)
    timers.scan(at=timers.due(entity))
    assert api.read(entity) == before
    refused(api.post(f"/entity/JSON/{model}", {"no": 1}), 409, "UNIQUE_VIOLATION")
    refused(api.post(f"/entity/JSON/{model}", {"no": 7}), 409, "UNIQUE_VIOLATION")
    assert api.state(holder) in ("Booked", "Renumbered")


def test_a_fire_releases_the_old_value_and_takes_the_new_one(api, serving, timers):
    node = Node(tags=["node"])
    node.processor("renumber")(lambda document: document | {"no": 7})
    serving(node)
    model = a_keyed_model(api)
    entity = api.create({"no": 1}, model=model).id
    timers.scan(at=timers.due(entity))
    assert (api.state(entity), api.read(entity)["data"]["no"]) == ("Renumbered", 7)
    refused(api.post(f"/entity/JSON/{model}", {"no": 7}), 409, "UNIQUE_VIOLATION")
    api.create({"no": 1}, model=model)
