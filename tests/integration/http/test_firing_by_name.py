"""Firing a transition without a document, as the older Python clients do (decision S12,
docs/reference/grpc.md#applications-in-the-field).
"""

import pytest

from tests.builders import SAMPLE, a_workflow, manual
from tests.service import Api, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
LIFE = a_workflow(NEW=[manual("GO", to="DONE")], DONE=[])
PATH = "/platform-api/entity/transition"


def test_the_transition_is_made_and_the_document_stays(api: Api) -> None:
    entity = api.create(model=api.a_model(LIFE)).id
    saved = done(api.put(f"{PATH}?entityId={entity}&entityClass=com.cyoda.TreeNodeEntity&transitionName=GO"))
    assert saved["entityIds"] == [entity]
    envelope = api.read(entity)
    assert (envelope["meta"]["state"], envelope["data"]) == ("DONE", SAMPLE)
    assert envelope["meta"]["transactionId"] == saved["transactionId"]


def test_what_cannot_be_fired_is_refused(api: Api) -> None:
    entity = api.create(model=api.a_model(LIFE)).id
    refused(api.put(f"{PATH}?entityId={entity}&transitionName=NOPE"), 404, "TRANSITION_NOT_FOUND")
    refused(api.put(f"{PATH}?entityId={UNKNOWN}&transitionName=GO"), 404, "ENTITY_NOT_FOUND")


@pytest.mark.parametrize("query", ["", "transitionName=GO", f"entityId={UNKNOWN}", "entityId=x&transitionName=GO"])
def test_entity_and_transition_must_be_named(api: Api, query: str) -> None:
    refused(api.put(f"{PATH}?{query}"), 400, "BAD_REQUEST")
