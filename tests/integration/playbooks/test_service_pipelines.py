"""Pipelines that the service runs itself, against real servers (docs/reference/playbooks.md#http)."""

# ruff: noqa: E501 - a playbook is a line

import json
from datetime import timedelta
from typing import Any

from statewright.computations import ComputationLimits, ComputationPool
from statewright.egress import Egress
from statewright.ids import TenantId
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject
from statewright.playbooks import compile_playbook
from statewright.playbooks.dispatch import Dispatch
from statewright.services.playbooks.pipelines import run_pipeline
from tests.integration.egress.conftest import PERMITTED, REFUSED, Names, open_egress, respond, serve

QUIET = ComputationLimits(timeout=timedelta(seconds=30))
"""On a machine that has other things to do."""


async def run(
    egress: Egress | None, tool: str, *, limits: ComputationLimits = QUIET, **known: Any
) -> tuple[dict[str, Any], list[JsonObject]]:
    text = f"metadata: {{name: x}}\nworkflow: [{{step: s, tool: {tool}}}]"
    dispatch = Dispatch(tasks=compile_playbook(text).steps[0].tasks, **known)
    reports: list[JsonObject] = []

    async def report(progress: JsonObject) -> None:
        reports.append(progress)  # and nobody knows whether it was taken

    pool = ComputationPool(limits)
    try:
        completion = await run_pipeline(pool, egress, TenantId("t"), dispatch, report)
    finally:
        await pool.close()
    return json.loads(encode(completion)), reports


async def test_a_request_is_sent_and_its_answer_is_the_result() -> None:
    policy = "{policy: {rules: [{when: outcome.http.status == 200, then: {do: continue, set_ctx: {n: '{{ outcome.result.data.n }}'}}}]}}"
    async with serve(respond(b'{"n": 7}', Content_Type="application/json")) as server, open_egress() as egress:
        tool = f"[{{get: {{kind: http, url: '{server.url(path='/a')}', params: {{q: 1}}, spec: {policy}}}}}, {{kind: noop}}]"
        completion, reports = await run(egress, tool)
    assert server.requests[0][1].startswith("GET /a?q=1 HTTP/1.1\r\n")
    assert (completion["status"], completion["results"]["get"]["data"]) == ("ok", {"n": 7})
    assert [(patch["path"], patch["value"]) for patch in completion["patches"]] == [(["n"], 7)]
    assert len(reports) == 1


async def test_what_the_policy_does_not_permit_is_not_reached_and_not_tried_again() -> None:
    names = Names(inside_test=[[REFUSED]])
    retry = "{policy: {rules: [{when: outcome.error.retryable, then: {do: retry, attempts: 5}}]}}"
    async with serve(respond()) as server, open_egress(names) as egress:
        for url in (server.url(REFUSED), server.url("inside.test"), "http://169.254.169.254/latest/meta-data"):
            completion, _ = await run(egress, f"{{name: t, kind: http, url: '{url}', spec: {retry}}}")
            assert (completion["error"]["kind"], completion["error"]["code"]) == ("transport", "address_refused")
    assert server.connections == []


async def test_a_name_that_changes_leads_nowhere_else() -> None:
    """DNS rebinding: the second request asks again, and is refused."""
    names = Names(rebinding_test=[[PERMITTED], [REFUSED]])
    async with serve(respond(Connection="close")) as server, open_egress(names) as egress:
        url = server.url("rebinding.test")
        completion, _ = await run(egress, f"[{{a: {{kind: http, url: '{url}'}}}}, {{b: {{kind: http, url: '{url}'}}}}]")
    assert completion["error"]["code"] == "address_refused"
    assert server.connections == [PERMITTED]


async def test_a_redirect_is_an_answer() -> None:
    async with (
        serve(respond(status="302 Found", Location="http://169.254.169.254/")) as server,
        open_egress() as egress,
    ):
        completion, _ = await run(egress, f"{{name: t, kind: http, url: '{server.url()}'}}")
    assert (completion["error"]["status"], len(server.requests)) == (302, 1)


async def test_errors_are_tried_again_as_the_policy_says() -> None:
    retry = "{policy: {rules: [{when: outcome.error.retryable, then: {do: retry, attempts: 3}}]}}"
    async with serve(respond(b"busy", status="503 Unavailable")) as server, open_egress() as egress:
        completion, _ = await run(egress, f"{{name: t, kind: http, url: '{server.url()}', spec: {retry}}}")
    assert (len(server.requests), completion["error"]["code"]) == (3, "HTTP_503")


async def test_secrets_are_sent_and_are_in_nothing_that_is_reported() -> None:
    echo = respond(b'{"you": "sent secret-token"}', Content_Type="application/json")
    async with serve(echo) as server, open_egress() as egress:
        tool = f"{{name: t, kind: http, url: '{server.url()}', auth: shop}}"
        completion, _ = await run(egress, tool, keychain={"shop": {"token": "secret-token"}})
    assert "Authorization: Bearer secret-token\r\n" in server.requests[0][1]
    assert completion["result"]["data"] == {"you": "sent ***"}
    assert "secret-token" not in json.dumps(completion)


async def test_a_request_fails_where_the_service_is_no_longer_set_to_send_any() -> None:
    completion, _ = await run(None, "{kind: http, url: 'http://x.test/'}")
    assert completion["error"]["code"] == "disabled"


async def test_a_request_that_is_none_is_an_error() -> None:
    async with open_egress() as egress:
        for fields in ("url: 3", "url: 'http://a', headers: {a: \"b\\r\\nc: d\"}", "url: 'http://a', auth: nobody"):
            completion, _ = await run(egress, f"{{name: t, kind: http, {fields}}}")
            assert completion["error"]["kind"] == "http_request"


async def test_the_service_runs_no_code() -> None:
    async with open_egress() as egress:
        completion, _ = await run(egress, "{name: t, kind: python}")
    assert completion["error"]["kind"] == "no_handler"


LONG = "{{ range(n) | map('string') | join(',') | length }}"


async def test_templates_of_any_length_have_the_same_effects() -> None:
    """Those that are too long for a turn of the event loop are rendered by another process."""
    for n in (3, 9_000):
        chars = len(",".join(map(str, range(n))))
        tool = f'[{{a: {{kind: http, url: 3, x: "{LONG}", spec: {{policy: {{rules: [{{then: {{do: continue, set_ctx: {{chars: "{LONG}"}}}}}}]}}}}}}}}, {{kind: noop}}]'
        completion, reports = await run(None, tool, args={}, workload={}, ctx={"n": n}, results={"n": n})
        assert completion["status"] == "ok", completion
        assert [patch["value"] for patch in completion["patches"]] == [chars]
        assert len(reports) == 1


async def test_a_pipeline_whose_templates_take_too_long_ends_with_an_error() -> None:
    limits = ComputationLimits(timeout=timedelta(milliseconds=1))
    completion, _ = await run(None, f'[{{a: {{kind: http, url: "{LONG}"}}}}]', limits=limits, results={"n": 9_000})
    assert completion["status"] == "error"
    assert (completion["error"]["kind"], completion["error"]["code"]) == ("computation", "COMPUTATION_TOO_LONG")
