"""Nobody waits for it any more: what an abandoned search was doing in the database ends with it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from urllib.parse import urlsplit

import asyncpg
import grpc
import pytest

from tests.builders import Json
from tests.database import Template, connected
from tests.integration.grpc_rpcs.client import Rpcs, spec
from tests.integration.search.finding import EVERYTHING, a_parcel_model, asked, found, parcels, simple
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, hosted

JUDGED = simple("$.name", "MATCHES_PATTERN", "[a-z]")
"""Needs a cursor, since SQL alone cannot answer it."""


@pytest.fixture(scope="module")
def service(database_template: Template) -> Iterator[RunningService]:
    """A service whose searches take as long as they like: nothing but their abandonment can end them here."""
    with hosted(database_template.clone(), search_timeout=timedelta(hours=1)) as running:
        yield running


@pytest.fixture
def parcel_api(api: Api) -> Api:
    a_parcel_model(api)
    parcels(api, {})
    return api


@asynccontextmanager
async def stuck(service: RunningService) -> AsyncIterator[asyncpg.Connection]:
    """No search gets on inside the block; a connection to look at them with."""
    async with connected(service.database) as holder, connected(service.database) as observer, holder.transaction():
        await holder.execute("LOCK TABLE entity IN ACCESS EXCLUSIVE MODE")
        yield observer


SEARCHING = r"""
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ '^\s*(SELECT id, state|WITH hit AS)'
"""


async def searching(observer: asyncpg.Connection, number: int) -> None:
    """Waits until there are so many statements of searches in the database."""
    async with asyncio.timeout(PATIENCE_S):
        while await observer.fetchval(SEARCHING) != number:
            pass


def sent(service: RunningService, api: Api, condition: Json) -> socket.socket:
    """A request whose answer nobody has read yet."""
    address = urlsplit(service.root)
    client = socket.create_connection((address.hostname or "", address.port or 0))
    body = json.dumps(condition).encode()
    lines = [
        f"POST {service.context_path}/search/direct/parcel/1 HTTP/1.1",
        f"Host: {address.netloc}",
        f"Authorization: Bearer {api.token}",
        f"Content-Length: {len(body)}",
    ]
    client.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return client


@pytest.mark.parametrize("condition", [EVERYTHING, JUDGED])
async def test_a_client_that_hangs_up_ends_its_statement(
    service: RunningService, parcel_api: Api, condition: Json
) -> None:
    async with stuck(service) as observer:
        with closing(sent(service, parcel_api, condition)):
            await searching(observer, 1)
        await searching(observer, 0)
    assert found(parcel_api, condition) == ["a"], "its connection is replaced"


async def test_a_call_that_is_cancelled_ends_its_statement(
    service: RunningService, parcel_api: Api, tenant: str
) -> None:
    rpcs = Rpcs(service.grpc, a_token(tenant))
    async with stuck(service) as observer:
        call = rpcs.begun("EntitySearchRequest", model=spec("parcel"), condition=EVERYTHING)
        await searching(observer, 1)
        call.cancel()
        await searching(observer, 0)
    with pytest.raises(grpc.RpcError, match="CANCELLED"):
        next(iter(call))


async def test_a_job_that_is_cancelled_ends_its_statement(service: RunningService, parcel_api: Api) -> None:
    async with stuck(service) as observer:
        job = done(asked(parcel_api, EVERYTHING, path="/search/async/parcel/1"))
        await searching(observer, 1)
        assert done(parcel_api.put(f"/search/async/{job}/cancel"))["isCancelled"] is True
        await searching(observer, 0)
