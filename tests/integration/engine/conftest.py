"""A node of the test's tenant, and clients that wait while the test plays the node."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.integration.node import Node, a_node
from tests.service import RunningService

Join = Callable[..., Node]
Meanwhile = Callable[..., "Future[Any]"]


@pytest.fixture
def join(service: RunningService, tenant: str) -> Iterator[Join]:
    """Connects nodes with the given tags, until the test ends."""
    with ExitStack() as stack:
        yield lambda *tags: stack.enter_context(a_node(service, tenant, *tags))


@pytest.fixture
def node(join: Join) -> Node:
    """A node with the tag ``node``."""
    return join("node")


@pytest.fixture
def meanwhile() -> Iterator[Meanwhile]:
    """Starts a call that waits for the node, while the test goes on."""
    with ThreadPoolExecutor(32) as pool:
        yield pool.submit
