"""What tests of the RPCs share."""

import pytest

from tests.integration.grpc_rpcs.client import Rpcs
from tests.integration.grpc_rpcs.conversation import heard as heard
from tests.integration.transactions.conftest import serving as serving
from tests.service import RunningService, a_token


@pytest.fixture
def rpcs(service: RunningService, tenant: str) -> Rpcs:
    """The RPCs as alice of this test's tenant sees them."""
    return Rpcs(service.grpc, a_token(tenant))
