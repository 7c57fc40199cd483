"""The trace sampler, which is kept though there is nothing to sample (docs/reference/service.md#trace-sampler)."""

from collections.abc import Iterator

import pytest

from tests.builders import Json
from tests.service import Api, RunningService, done, refused

PATH = "/admin/trace-sampler"


@pytest.fixture
def admin(service: RunningService, tenant: str) -> Iterator[Api]:
    """An administrator; the sampler is put back afterwards, for the service is shared."""
    api = service.api(tenant, user_roles=["ROLE_ADMIN"])
    yield api
    api.post(PATH, {"sampler": "always"})


def test_what_is_set_is_told(admin: Api) -> None:
    assert admin.get(PATH).text == '{"parent_based":true,"sampler":"always"}\n'
    wanted = {"sampler": "ratio", "ratio": 0.25, "parent_based": False}
    assert done(admin.post(PATH, wanted)) == wanted
    assert done(admin.get(PATH)) == wanted
    assert done(admin.post(PATH, {"sampler": "never", "ratio": 0})) == {"sampler": "never", "parent_based": True}


@pytest.mark.parametrize(
    "body",
    [
        "", "[]", {}, {"sampler": "sometimes"}, {"sampler": "Always"}, {"sampler": 5}, {"sampler": "ratio"},
        {"sampler": "ratio", "ratio": 0}, {"sampler": "ratio", "ratio": 1.1}, {"sampler": "ratio", "ratio": -1},
        {"sampler": "ratio", "ratio": "1"}, {"sampler": "never", "ratio": 0.5}, '{"a":' * 20_000,
    ],
)  # fmt: skip
def test_what_is_no_sampler_changes_nothing(admin: Api, body: Json) -> None:
    refused(admin.post(PATH, body), 400, "BAD_REQUEST")
    assert done(admin.get(PATH)) == {"sampler": "always", "parent_based": True}


def test_nobody_but_an_administrator_may(api: Api, service: RunningService) -> None:
    for response in (api.get(PATH), api.post(PATH, {"sampler": "never"})):
        assert refused(response, 403, "FORBIDDEN")["detail"] == "FORBIDDEN: forbidden: admin role required, ROLE_ADMIN"
    refused(service.anonymous().get(PATH), 401, "UNAUTHORIZED")
