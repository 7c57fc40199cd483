"""An error about a member of a body says which, as a JSON pointer (docs/reference/flows.md#rest)."""

from tests.builders import Json
from tests.integration.flows.conftest import an_error, done
from tests.service import Api, RunningService, a_token

CASES: list[tuple[str, Json, str]] = [
    ("/v1/flows/definitions", [], "/"),
    ("/v1/flows/definitions", {"source": 1}, "/source"),
    ("/v1/flows/definitions", {"source": "a", "settings": 1}, "/settings"),
    ("/v1/flows/definitions", {"source": "a", "settings": {"retries": "x"}}, "/settings"),
    ("/v1/flows/definitions", {"source": "a"}, "/id"),
    ("/v1/flows/validate", {"source": "a", "id": "no id"}, "/id"),
    ("/v1/flows/instances", {}, "/definitionId"),
    ("/v1/flows/instances", {"definitionId": "f", "input": 3}, "/input"),
    ("/v1/flows/instances", {"definitionId": "f", "definitionVersion": "x"}, "/definitionVersion"),
    ("/v1/flows/instances", {"definitionId": "f", "businessKey": "k" * 1_000}, "/businessKey"),
    ("/v1/flows/instances", {"definitionId": "f", "inputs": {}}, "/inputs"),
    ("/v1/flows/instances/I/change", {"node": 1, "input": {}, "elemnt": 0}, "/elemnt"),
    ("/v1/flows/instances/I/change", {"input": {}}, "/node"),
    ("/v1/flows/instances/I/change", {"node": 1.5, "input": {}}, "/node"),
    ("/v1/flows/instances/I/change", {"node": 1}, "/input"),
    ("/v1/flows/instances/I/cancel", {"reason": "x" * 5_000}, "/reason"),
    ("/v1/flows/events", {}, "/event"),
    ("/v1/flows/events", {"event": "e", "fields": []}, "/fields"),
    ("/v1/flows/events", {"event": "e", "output": 3}, "/output"),
    ("/v1/flows/events", {"event": "e", "after": "x"}, "/after"),
    ("/v1/flows/events", {"event": "e", "instanceId": "x"}, "/instanceId"),
    ("/v1/flows/events", {"event": "e", "definitionId": "x"}, "/businessKey"),
    ("/v1/flows/events", {"event": "e", "instance": "x"}, "/instance"),
    ("/v1/executions", [], "/"),
    ("/v1/executions", {}, "/path"),
    ("/v1/executions", {"path": "p", "workload": []}, "/workload"),
    ("/v1/executions", {"path": "p", "ctx": "x"}, "/ctx"),
    ("/v1/executions", {"path": "p", "version": "1"}, "/version"),
    ("/v1/executions", {"path": "p", "wrokload": {}}, "/wrokload"),
    ("/v1/executions/E/patch", {}, "/ctx"),
    ("/v1/executions/E/patch", {"ctx": {"a..b": 1}}, "/ctx"),
    ("/v1/executions/E/patch", {"ctx": {"a": 1}, "resaon": "x"}, "/resaon"),
    ("/v1/executions/E/tokens", {"step": "s", "arg": {}}, "/arg"),
    ("/v1/executions/E/tokens", {}, "/step"),
    ("/v1/executions/E/tokens", {"step": "nowhere"}, "/step"),
    ("/v1/executions/E/tokens", {"step": "s", "args": []}, "/args"),
]
"""Paths, in which ``I`` and ``E`` are an instance and an execution, bodies, and what is wrong."""


def test_the_member_that_is_wrong_is_named(service: RunningService, tenant: str) -> None:
    root = Api(service.root, a_token(tenant))
    done(root.post("/v1/flows/definitions", {"source": "@flow f\na"}), 201)
    playbook = {"metadata": {"name": "p"}, "workflow": [{"step": "s", "tool": {"kind": "x"}}]}
    done(root.post("/v1/playbooks", playbook), 201)
    instance = done(root.post("/v1/flows/instances", {"definitionId": "f"}), 201)["id"]
    execution = done(root.post("/v1/executions", {"path": "p"}), 201)["id"]
    for path, body, parameter in CASES:
        refusal = root.post(path.replace("/I/", f"/{instance}/").replace("/E/", f"/{execution}/"), body)
        told = an_error(refusal, 400, "bad-request")
        assert told.get("parameter") == parameter, (path, body, told)


def test_numbers_in_queries_are_numbers_but_for_the_public_engine(service: RunningService, tenant: str) -> None:
    root = Api(service.root, a_token(tenant))
    for path in ("/v1/flows/definitions", "/v1/flows/instances", "/v1/playbooks", "/v1/executions"):
        for query, parameter in (("page=x", "page"), ("pageSize=1.5", "pageSize"), ("page=1&page=2", "page")):
            assert an_error(root.get(f"{path}?{query}"), 400, "bad-request")["parameter"] == parameter, path
    for path in ("/v1/definitions", "/v1/instances"):
        assert done(root.get(f"{path}?page=x&pageSize=1.5&page=2"))["page"] == 0


def test_the_refusal_of_a_text_of_a_flow_says_how_it_is_sent(service: RunningService, tenant: str) -> None:
    root = Api(service.root, a_token(tenant))
    hint = "the text of a flow is sent as text/plain"
    for body, is_hinted in ((b"@flow f\na", True), (b'{"source": ', False), (b"", False)):
        refusal = root.post("/v1/flows/definitions", body, Content_Type="application/x-www-form-urlencoded")
        assert (hint in an_error(refusal, 400, "bad-request")["reason"]) is is_hinted, refusal.text
