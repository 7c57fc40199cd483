"""Calls of the API as values, and the API inside the process (docs/console.md#what-it-is)."""

import asyncio
import shlex
from typing import Any

from statewright.console.calls import MERGE_PATCH, build_entity_call, build_ops_call
from statewright.console.client import ApiClient, AsgiApi


def test_names_are_encoded_segment_by_segment():
    call = build_entity_call("model", "a/b ?#%é", 1, "workflow", "export")
    assert call.get_target("/api") == "/api/model/a%2Fb%20%3F%23%25%C3%A9/1/workflow/export"
    assert build_entity_call("model", "").get_target("/api") == "/api/model/"
    assert build_ops_call().get_target("/api") == "/ops/v1"


def test_parameters_that_are_not_given_are_left_out():
    call = build_ops_call("queues", query={"limit": 5, "withoutWorker": True, "cursor": None, "tag": ["a", "b c"]})
    assert call.get_target("/api") == "/ops/v1/queues?limit=5&withoutWorker=true&tag=a&tag=b%20c"


def test_a_command_line_says_the_same_and_cannot_be_broken_out_of():
    hostile = "'; rm -rf / #"
    call = build_entity_call(
        "entity", hostile, method="PATCH", body=hostile.encode(), headers={"If-Match": hostile}, media_type=MERGE_PATCH
    )
    words = shlex.split(call.format_curl("http://localhost:8080", "/api"))
    assert words[:3] == ["curl", "-X", "PATCH"]
    assert f"If-Match: {hostile}" in words
    assert words[-2:] == [hostile, "http://localhost:8080/api/entity/%27%3B%20rm%20-rf%20%2F%20%23"]


def an_application(status: int, body: bytes, *, wait: bool = False) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        application.scope = scope  # type: ignore[attr-defined]
        application.body = (await receive())["body"]  # type: ignore[attr-defined]
        if wait:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                status = 503  # what the real one makes of it
                await send({"type": "http.response.start", "status": status, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application


async def test_a_call_brings_the_token_and_gives_exact_numbers():
    application = an_application(200, b'{"n": 0.10, "large": 12345678901234567890123456789012345678901234567890}')
    client = ApiClient(AsgiApi(application, "/api"), "secret")
    reply = await client.call(build_entity_call("entity", "x", method="PUT", body=b"{}"))
    assert {key: str(value) for key, value in reply.document.items()} == {
        "n": "0.10",
        "large": "12345678901234567890123456789012345678901234567890",
    }
    assert (b"authorization", b"Bearer secret") in application.scope["headers"]
    assert application.scope["raw_path"] == b"/api/entity/x"
    assert application.body == b"{}"
    assert client.made == [reply]


async def test_a_call_without_an_answer_ends():
    client = ApiClient(AsgiApi(an_application(200, b"", wait=True), "/api"), None)
    reply = await client.call(build_entity_call("model", "", timeout_s=0.01))
    assert (reply.status, reply.document["properties"]) == (504, {"errorCode": "CALL_TIMEOUT"})


async def test_of_an_answer_that_is_too_long_no_more_is_read():
    client = ApiClient(AsgiApi(an_application(200, b"x" * (33 * 1024 * 1024)), "/api"), None)
    reply = await client.call(build_entity_call("model", ""))
    assert reply.status == 502
