"""Tasks of the kind ``http`` within a pipeline that this program runs, with its own network: what the service permits
for requests of its own does not apply here.
"""

import asyncio
from typing import Final

import httpx

from statewright.jsonval.values import JsonObject
from statewright.playbooks.http_tasks import HttpCall, build_call, read_response, report_failure
from statewright.playbooks.outcomes import Outcome

MAX_RESPONSE_BYTES: Final = 10 * 1024 * 1024


async def send_http(fields: JsonObject, keychain: JsonObject) -> Outcome:
    """Send the request of a task. Redirects are answers like any other."""
    call = build_call(fields, keychain)
    if isinstance(call, Outcome):
        return call
    try:
        async with asyncio.timeout(call.connect_s + call.read_s):
            return await _send(call)
    except TimeoutError:
        return report_failure("no response in time", code="timed_out")
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError):
        return report_failure("the request cannot be sent: check the URL", retryable=False, code="url_malformed")
    except httpx.HTTPError as error:
        return report_failure(f"no response: {type(error).__name__}", code="connection_failed")


async def _send(call: HttpCall) -> Outcome:
    timeout = httpx.Timeout(call.read_s, connect=call.connect_s)
    headers = [(name, value.encode()) for name, value in call.headers]
    async with (
        httpx.AsyncClient(timeout=timeout, follow_redirects=False) as client,
        client.stream(
            call.method, call.url, headers=[(name.encode(), value) for name, value in headers], content=call.body
        ) as response,
    ):
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_RESPONSE_BYTES:
                return report_failure(
                    f"a response of more than {MAX_RESPONSE_BYTES} bytes", retryable=False, code="body_too_large"
                )
        return read_response(response.status_code, response.headers.multi_items(), bytes(body))
