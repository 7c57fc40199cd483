"""The body of a request, as endpoints read it."""

import asyncio
from typing import Any, cast

import pytest

from statewright.api.http.request import Request
from statewright.failures import BodyTooLarge


def build_request(*parts: bytes) -> Request:
    """A request whose body comes in parts; the client stays after it."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    nothing = cast("Any", None)
    return Request({}, receive, runtime=nothing, caller=nothing, path_params={})


@pytest.mark.parametrize("parts", [(b"whole",), (b"wh", b"", b"ole"), (b"",)])
async def test_a_body_that_is_read_again_is_an_error_and_no_wait(parts: tuple[bytes, ...]):
    request = build_request(*parts)
    assert await request.body() == b"".join(parts)
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="can be read once"):
            await request.body()
        with pytest.raises(RuntimeError, match="can be read once"):
            await anext(request.parts())


async def test_a_body_over_its_limit_is_refused_without_reading_on():
    request = build_request(b"12345", b"67890", b"never asked for")
    with pytest.raises(BodyTooLarge):
        await request.body(9)
    assert await request.body() == b"never asked for"
