"""The admin listener (docs/reference/service.md#health)."""

import asyncio
import io
from collections.abc import Awaitable, Callable

import httpx
import pytest

from statewright.api.http import administration
from statewright.api.http.administration import build_admin_application
from statewright.settings import Secret
from statewright.telemetry import logs


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


def metrics() -> bytes:
    return b"up 1\n"


async def get(
    path: str,
    *,
    method: str = "GET",
    ready: Callable[[], Awaitable[bool]] = yes,
    bearer: str | None = None,
    authorization: str | None = None,
) -> httpx.Response:
    application = build_admin_application(
        ready=ready, metrics=metrics, bearer=None if bearer is None else Secret(bearer)
    )
    headers = {} if authorization is None else {"Authorization": authorization}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://admin") as client:
        return await client.request(method, path, headers=headers)


async def test_the_listener_is_alive_as_soon_as_it_runs():
    answer = await get("/livez", ready=no)
    assert (answer.status_code, answer.text) == (200, "ok")
    assert answer.headers["content-type"].startswith("text/plain")


async def test_a_service_that_is_ready_says_so():
    answer = await get("/readyz")
    assert (answer.status_code, answer.text) == (200, "ready")


async def test_a_service_that_is_not_ready_does_not_say_why():
    answer = await get("/readyz", ready=no)
    assert (answer.status_code, answer.text) == (503, "not ready\n")


async def test_a_check_that_fails_means_not_ready_and_the_log_knows_why(monkeypatch: pytest.MonkeyPatch):
    async def broken() -> bool:
        raise ConnectionError("db-7 is down")

    log = io.BytesIO()
    monkeypatch.setattr(logs._output, "stream", log)
    answer = await get("/readyz", ready=broken)
    assert (answer.status_code, answer.text) == (503, "not ready\n")
    assert b"db-7 is down" in log.getvalue()


async def test_a_check_that_takes_too_long_means_not_ready(monkeypatch: pytest.MonkeyPatch):
    async def never() -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(administration, "READINESS_TIMEOUT_S", 0.0)
    assert (await get("/readyz", ready=never)).status_code == 503


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_probes_may_use_any_method(method: str):
    assert (await get("/livez", method=method)).status_code == 200
    assert (await get("/readyz", method=method)).status_code == 200


async def test_metrics_are_in_the_prometheus_text_format():
    answer = await get("/metrics")
    assert (answer.status_code, answer.content) == (200, b"up 1\n")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_metrics_with_a_bearer_are_for_those_who_have_it():
    assert (await get("/metrics", bearer="s3cret", authorization="Bearer s3cret")).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [None, "", "s3cret", "Bearer", "Bearer s3cre", "Bearer s3crets", "bearer s3cret", "Bearer  s3cret", "Basic s3cret"],
)
async def test_everybody_else_is_challenged(authorization: str | None):
    answer = await get("/metrics", bearer="s3cret", authorization=authorization)
    assert (answer.status_code, answer.text) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="cyoda metrics"'


async def test_probes_need_no_bearer():
    assert (await get("/livez", bearer="s3cret")).status_code == 200
    assert (await get("/readyz", bearer="s3cret")).status_code == 200


async def test_there_is_nothing_else():
    assert (await get("/")).status_code == 404
