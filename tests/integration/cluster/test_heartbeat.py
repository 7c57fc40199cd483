"""Leases: who counts as alive, and what a node does that does not."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.builders import SAMPLE, a_processor, a_workflow, automated
from tests.database import connected
from tests.integration.cluster.conftest import knows, sees
from tests.integration.node import a_node
from tests.integration.storage.network import Network, a_network
from tests.service import Api, RunningService, done, eventually, hosted, refused


class Remote:
    """A node that reaches the database over a network we hold in our hands."""

    def __init__(self, database: str) -> None:
        self._database = database
        self.network: Network
        self.service: RunningService

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[str]:
        async with a_network(self._database) as self.network:
            yield self.network.url

    def mute(self) -> None:
        """From now on it hears nothing of the database."""
        self.service.loop.call_soon_threadsafe(self.network.mute)

    def cut(self) -> None:
        """Its connections break, and new ones are good."""
        self.service.loop.call_soon_threadsafe(self.network.cut)


@pytest.fixture(scope="module")
def remote(nodes: tuple[RunningService, RunningService]) -> Iterator[Remote]:
    remote = Remote(nodes[0].database)
    with hosted(
        remote.connected(), node_lease=timedelta(seconds=1), dispatch_wait_timeout=timedelta(0)
    ) as remote.service:
        yield remote


def test_a_node_that_loses_the_database_is_lost_knows_it_and_comes_back_as_itself(
    here: RunningService, remote: Remote, tenant: str
) -> None:
    lonely = remote.service
    eventually(lambda: knows(here, lonely) and knows(lonely, here))
    with a_node(here, tenant, "near-here"), a_node(lonely, tenant, "far"):
        eventually(lambda: sees(lonely, tenant, "near-here") and sees(here, tenant, "far"))
        remote.mute()
        eventually(lambda: not knows(here, lonely))
        eventually(lambda: not lonely.parts.node.peer_table)
        assert Api(lonely.admin).get("/readyz").status_code == 503
        assert not sees(here, tenant, "far")
        remote.cut()
        eventually(lambda: knows(here, lonely) and knows(lonely, here))
        eventually(lambda: sees(lonely, tenant, "near-here") and sees(here, tenant, "far"))
        eventually(lambda: Api(lonely.admin).get("/readyz").status_code == 200)


def test_a_node_that_drains_is_not_asked_any_more(here: RunningService, remote: Remote, tenant: str) -> None:
    api = here.api(tenant)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    with a_node(remote.service, tenant, "node") as far:
        eventually(lambda: sees(here, tenant, "node"))
        remote.service.loop.call_soon_threadsafe(remote.service.parts.node.drain)
        eventually(lambda: not sees(here, tenant, "node"))
        assert knows(here, remote.service)
        refused(api.post(f"/entity/JSON/{model}", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
        assert far.is_idle


def test_a_node_stays_ready_when_one_of_a_newer_release_has_migrated(here: RunningService) -> None:
    async def migrate() -> None:
        async with connected(here.database) as connection:
            await connection.execute(
                "INSERT INTO schema_migration (version, name, checksum) "
                "SELECT max(version) + 1, '9999_from_the_future.sql', max(checksum) FROM schema_migration"
            )

    async def restore() -> None:
        async with connected(here.database) as connection:
            await connection.execute("DELETE FROM schema_migration WHERE name = '9999_from_the_future.sql'")

    asyncio.run(migrate())
    try:
        assert Api(here.admin).get("/readyz").status_code == 200
        done(here.anonymous().get("/health"))
    finally:
        asyncio.run(restore())
