"""What the tests of ``workflow.v1`` share."""

from collections.abc import Iterator

import pytest

from tests.integration.steps_grpc.engine import Engine, engine_of
from tests.service import RunningService, a_token


@pytest.fixture
def engine(service: RunningService, tenant: str) -> Iterator[Engine]:
    """The engine as alice of this test's tenant sees it."""
    with engine_of(service, a_token(tenant)) as engine:
        yield engine
