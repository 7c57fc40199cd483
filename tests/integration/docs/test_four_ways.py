"""All four ways of docs/guides/four-ways.md bring an order to the same end."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from statewright import Client
from statewright.ids import TenantId
from tests.service import Api, RunningService, a_token, done, eventually

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "four-ways.md").read_text()
WAYS = ("run_workflow", "run_steps", "run_flow", "run_playbook")

DEAR = {"id": "O-1", "total": 250}
CHEAP = {"id": "O-2", "total": 30}
SHIPPED = {
    "O-1": DEAR | {"shelf": "A", "insured": True, "parcel": "P-O-1"},
    "O-2": CHEAP | {"shelf": "A", "parcel": "P-O-2"},
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def names_of_page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "four_ways_page"}
    for source in blocks("python"):
        exec(compile(source, "docs/guides/four-ways.md", "exec"), names)
    return names


@pytest.fixture
def client(service: RunningService, api: Api, tenant: str) -> Iterator[Client]:
    """A client of a tenant that has all four definitions of the page, and the page's node."""
    workflow, steps = map(json.loads, blocks("json"))
    api.import_model("order/1", DEAR | {"shelf": "A", "insured": True, "parcel": "P"})
    done(api.post("/model/order/1/workflow/import", workflow))
    api.lock("order/1")
    serving = asyncio.run_coroutine_threadsafe(
        names_of_page()["node"].serve(service.grpc, token=a_token(tenant), api=service.url), service.loop
    )
    with Client(service.url, token=a_token(tenant)) as client:
        client.steps.upload(steps)
        assert client.flows.check(*blocks("flow")) == []
        client.flows.upload(*blocks("flow"))
        assert client.playbooks.check(*blocks("yaml")) == []
        client.playbooks.upload(*blocks("yaml"))
        eventually(lambda: service.parts.members.list_members(TenantId(tenant)))
        try:
            yield client
        finally:
            serving.cancel()
            with suppress(CancelledError, TimeoutError):
                serving.result(timeout=5)


def test_every_way_comes_to_the_same_end(client: Client) -> None:
    names = names_of_page()
    for way in WAYS:
        run: Callable[[Client, Any], Any] = names[way]
        for order in (DEAR, CHEAP):
            assert run(client, order) == SHIPPED[order["id"]], way
