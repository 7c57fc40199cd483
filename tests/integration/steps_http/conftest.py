"""What the tests of the step dialect share."""

import pytest

from tests.service import Api, RunningService, a_token


@pytest.fixture
def v1(service: RunningService, tenant: str) -> Api:
    """The root of the service as alice of this test's tenant sees it: paths start with ``/v1``."""
    return Api(service.root, a_token(tenant))
