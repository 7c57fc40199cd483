"""The log level of a running process (docs/reference/service.md#log-level)."""

import pytest

from tests.builders import Json
from tests.service import Api, RunningService, done, refused

PATH = "/admin/log-level"
DEEP = '{"a":' * 20_000


@pytest.fixture
def admin(service: RunningService, tenant: str) -> Api:
    """An administrator."""
    return service.api(tenant, user_roles=["ROLE_ADMIN"])


def test_the_level_can_be_read_and_changed(admin: Api) -> None:
    before = done(admin.get(PATH))["level"]
    response = admin.post(PATH, {"level": "warn"})
    assert response.text == f'{{"level":"warn","previous":"{before}"}}\n'
    assert admin.get(PATH).text == '{"level":"warn"}\n'
    assert done(admin.post(PATH, {"level": "error"})) == {"level": "error", "previous": "warn"}


@pytest.mark.parametrize(
    ("word", "level"), [("WARNING", "warn"), (" Error ", "error"), ("DEBUG", "debug"), ("loud", "info"), (" ", "info")]
)
def test_words_are_read_generously(admin: Api, word: str, level: str) -> None:
    assert done(admin.post(PATH, {"level": word}))["level"] == level


@pytest.mark.parametrize("body", ["", "{", "[]", '"warn"', '{"level":5}', b'{"level":"\xff"}', DEEP])
def test_a_body_that_is_no_level_is_invalid(admin: Api, body: Json) -> None:
    problem = refused(admin.post(PATH, body), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: invalid request body"


@pytest.mark.parametrize("body", [{}, {"level": ""}, {"level": None}, {"Level": "warn"}])
def test_a_level_is_required(admin: Api, body: Json) -> None:
    problem = refused(admin.post(PATH, body), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: level is required"


def test_nobody_but_an_administrator_may(api: Api, service: RunningService) -> None:
    for response in (api.get(PATH), api.post(PATH, {"level": "debug"}), api.post(PATH, "{")):
        problem = refused(response, 403, "FORBIDDEN")
        assert problem["detail"] == "FORBIDDEN: forbidden: admin role required, ROLE_ADMIN"
    refused(service.anonymous().get(PATH), 401, "UNAUTHORIZED")
