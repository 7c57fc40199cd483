"""Two services on one database, in this process: everything between nodes but their deaths."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from datetime import timedelta

import pytest

from tests.database import Template
from tests.service import RunningService, eventually, hosted


@pytest.fixture(scope="module")
def nodes(database_template: Template) -> Iterator[tuple[RunningService, RunningService]]:
    """Two nodes that know each other. An idle node takes a fiftieth of a processor: they end with their module."""
    with ExitStack() as stack:
        one = stack.enter_context(hosted(database_template.clone(), dispatch_wait_timeout=timedelta(seconds=2)))
        other = stack.enter_context(hosted(nullcontext(one.database), dispatch_wait_timeout=timedelta(seconds=2)))
        eventually(lambda: knows(one, other) and knows(other, one))
        yield one, other


@pytest.fixture
def here(nodes: tuple[RunningService, RunningService]) -> RunningService:
    """The node that clients of a test use."""
    return nodes[0]


@pytest.fixture
def there(nodes: tuple[RunningService, RunningService]) -> RunningService:
    """The other one."""
    return nodes[1]


def knows(one: RunningService, other: RunningService) -> bool:
    """Whether a node has the other in its picture."""
    return other.parts.node.id in one.parts.node.peer_table.peers


def sees(service: RunningService, tenant: str, *tags: str) -> bool:
    """Whether a node knows of a member of the tenant on another one."""

    async def look() -> bool:
        return service.parts.node.peer_table.select(tenant, tags) is not None  # type: ignore[arg-type]

    return asyncio.run_coroutine_threadsafe(look(), service.loop).result(10)
