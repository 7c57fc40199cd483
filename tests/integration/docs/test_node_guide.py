"""Both nodes of docs/guides/nodes.md run the workflow of the page."""

import asyncio
import json
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from statewright.ids import TenantId
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, refused

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "nodes.md").read_text()
IN_PYTHON, IN_ANY_LANGUAGE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[WORKFLOWS] = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
SAMPLE = {"quantity": 1, "total": 1}


def definitions(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "nodes_page"}
    exec(compile(source, "docs/guides/nodes.md", "exec"), names)
    return names


def orders(api: Api) -> Api:
    """The API of a tenant with the model and the workflow of the page."""
    api.import_model("order/1", SAMPLE)
    done(api.post("/model/order/1/workflow/import", WORKFLOWS))
    api.lock("order/1")
    return api


def confirm(api: Api, quantity: int) -> Any:
    entity = api.create({"quantity": quantity}, model="order/1").id
    return entity, api.put(f"/entity/JSON/{entity}/confirm", {"quantity": quantity})


def plays_its_part(api: Api) -> None:
    entity, response = confirm(api, 7)
    done(response)
    assert (api.state(entity), api.read(entity)["data"]["total"]) == ("CONFIRMED", 21)
    _, response = confirm(api, 6000)
    assert "we do not have that many" in refused(response, 400, "WORKFLOW_FAILED")["detail"]


def members(service: RunningService, tenant: str) -> int:
    return len(service.parts.members.list_members(TenantId(tenant)))


def test_the_node_in_python(api: Api, service: RunningService, tenant: str) -> None:
    node = definitions(IN_PYTHON)["node"]
    serving = asyncio.run_coroutine_threadsafe(
        node.serve(service.grpc, token=a_token(tenant), api=service.url), service.loop
    )
    eventually(lambda: members(service, tenant))
    try:
        plays_its_part(orders(api))
        entity = api.create({"quantity": 1001}, model="order/1").id
        warned = api.put(f"/entity/JSON/{entity}/confirm", {"quantity": 1001})
        assert warned.headers["warning"] == '299 - "processor price: large order"'
    finally:
        service.loop.call_soon_threadsafe(node.stop)
        serving.result(PATIENCE_S)


def test_the_node_that_uses_nothing_but_the_generated_stubs(api: Api, service: RunningService, tenant: str) -> None:
    run_plain_node = definitions(IN_ANY_LANGUAGE)["run_plain_node"]
    token = a_token(tenant, "node", user_roles=None, scopes=["ROLE_M2M"])

    def serve() -> None:
        with suppress(grpc.RpcError):  # the stream ends with the service
            run_plain_node(service.grpc, token, ["shop"])

    threading.Thread(target=serve, daemon=True).start()
    eventually(lambda: members(service, tenant))
    plays_its_part(orders(api))
