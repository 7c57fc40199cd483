"""The job of docs/sdk.md, done by the page's own node for a service."""

import json
import re

from tests.builders import Json
from tests.integration.steps_http.conftest import done, started, uploaded
from tests.integration.transactions.conftest import connected
from tests.service import Api, RunningService, eventually
from tests.unit.docs.test_sdk_page import PAGE, definitions


def the_definition() -> Json:
    """The one JSON block of the page."""
    [block] = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return json.loads(block)


def test_the_job_of_the_page_is_done(service: RunningService, tenant: str, v1: Api) -> None:
    uploaded(v1, the_definition())

    def ended(**variables: Json) -> Json:
        instance = started(v1, "SHOP::payment", variables=variables)["id"]
        path = f"/v1/instances/{instance}"
        eventually(lambda: done(v1.get(path))["status"] not in {"ACTIVE", "WAITING"})
        return done(v1.get(path))

    with connected(service, tenant, definitions()["node"]):
        paid = ended(card="4000-1234", amount=7)
        refused = ended(card="4000-1234", amount=0)
    assert paid["status"] == "COMPLETED"
    assert re.fullmatch("1234-[0-9A-Z]{26}", paid["variables"]["receipt"])
    assert (refused["status"], refused["failureReason"]) == ("FAILED", "there is nothing to pay")
