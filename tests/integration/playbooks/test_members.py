"""Tasks that calculation members do, who know no playbooks (docs/reference/executions.md#calculation-members)."""

import threading
from typing import Any

import pytest

from statewright.sdk import Node, NonRetryable
from tests.builders import Json
from tests.integration.ops.builders import ops_api
from tests.integration.playbooks.conftest import Playbooks
from tests.integration.transactions.conftest import Serving
from tests.integration.transactions.conftest import serving as serving
from tests.service import RunningService, eventually

PATIENCE_S = 60.0


def end(playbooks: Playbooks, execution: Json) -> Json:
    """The execution, when it has ended."""
    eventually(lambda: playbooks.read(execution)["status"] not in ("running", "waiting"), within_s=PATIENCE_S)
    return playbooks.read(execution)


def test_a_member_is_chosen_by_tags_and_given_the_input(playbooks: Playbooks, serving: Serving):
    node, seen = Node(tags=["GPU", "eu", "more"]), list[Any]()

    @node.processor("score")
    def score(data: dict[str, Any]) -> dict[str, Any]:
        seen.append(data)
        return {"score": data["n"] + 1}

    serving(node)
    execution = playbooks.run("""
workflow:
- step: only
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
  tool:
  - {name: score, kind: compute, tags: "gpu, eu", input: {n: "{{ n }}"}}
  - {name: again, kind: compute, tags: [gpu], processor: score, input: {n: "{{ score.score }}"}}
""")
    assert end(playbooks, execution)["results"] == {"only": [{"score": 3}, {"score": 4}]}
    assert sorted(one["n"] for one in seen) == [1, 2, 2, 3]
    assert playbooks.poll("compute") == [], "no worker is asked"


def test_a_member_that_offers_a_kind_does_tasks_of_it_one_by_one(playbooks: Playbooks, serving: Serving):
    node, seen = Node(tags=["python"]), list[Any]()

    @node.processor("python")
    def run(data: dict[str, Any]) -> dict[str, Any]:
        seen.append(data)
        return {"said": data["code"]}

    serving(node)
    execution = playbooks.run("""
workflow:
- step: only
  tool:
  - {name: first, kind: python, code: one}
  - {name: between, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {a: "{{ first.said }}"}}}}]}}}
  - {name: second, kind: python, code: "{{ ctx.a }} and two"}
""")  # noqa: E501
    ended = end(playbooks, execution)
    assert (ended["status"], ended["ctx"], ended["results"]) == (
        "success",
        {"a": "one"},
        {"only": {"said": "one and two"}},
    )
    assert seen == [{"code": "one"}, {"code": "one and two"}]


def test_failures_of_members_are_outcomes_that_policies_route(playbooks: Playbooks, serving: Serving):
    node, tries = Node(tags=["flaky"]), list[int]()

    @node.processor("flaky")
    def flaky(data: dict[str, Any]) -> dict[str, Any]:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("boom")
        raise NonRetryable("never")

    serving(node)
    execution = playbooks.run("""
workflow:
- step: only
  tool:
    name: flaky
    kind: compute
    tags: flaky
    spec: {policy: {rules: [{when: outcome.error.retryable, then: {do: retry, attempts: 5}}]}}
""")
    ended = end(playbooks, execution)
    [failure] = ended["result"]["failures"]
    assert (len(tries), failure["error"]["kind"], failure["error"]["retryable"]) == (2, "tool", False)
    assert "never" in failure["error"]["message"]


def test_a_member_that_does_not_answer_in_time_is_an_error(playbooks: Playbooks, serving: Serving):
    node, leave = Node(tags=["slow"]), threading.Event()

    @node.processor("slow")
    def slow(data: dict[str, Any]) -> dict[str, Any]:
        leave.wait(PATIENCE_S)
        return {}

    serving(node)
    try:
        text = "workflow: [{step: only, tool: {name: slow, kind: compute, tags: slow, timeout_ms: 50}}]"
        ended = end(playbooks, playbooks.run(text))
    finally:
        leave.set()
    error = ended["result"]["failures"][0]["error"]
    assert (error["kind"], error["retryable"]) == ("timeout", True)


def test_no_member_with_the_tags_is_an_error_after_a_while(playbooks: Playbooks, serving: Serving):
    serving(Node(tags=["other"]))
    ended = end(playbooks, playbooks.run("workflow: [{step: only, tool: {kind: compute, tags: nobody}}]"))
    error = ended["result"]["failures"][0]["error"]
    assert (error["kind"], error["retryable"]) == ("no_compute_member", True)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ("tags: 3", "tags"),
        ("tags: [1]", "tags"),
        ("tags: a, timeout_ms: 0", "timeout_ms"),
        ("tags: a, processor: 3", "processor"),
        ("tags: a, context: {a: 1}", "context"),
        ("tags: a, attach: 1", "attach"),
    ],
)
def test_fields_that_make_no_request_are_an_error_that_names_them(playbooks: Playbooks, fields: str, word: str):
    ended = end(playbooks, playbooks.run(f"workflow: [{{step: only, tool: {{kind: compute, {fields}}}}}]"))
    error = ended["result"]["failures"][0]["error"]
    assert (error["kind"], word in error["message"]) == ("member_request", True)


def test_a_suspended_tag_is_an_error_that_can_be_tried_again(
    playbooks: Playbooks, serving: Serving, service: RunningService, tenant: str
):
    node, asked = Node(tags=["billing"]), list[int]()

    @node.processor("bill")
    def bill(data: dict[str, Any]) -> dict[str, Any]:
        asked.append(1)
        return {}

    serving(node)
    ops = ops_api(service, tenant, "ROLE_ADMIN", user="olga")
    assert ops.post("/suspensions", {"scope": "TAG", "name": "billing", "reason": "bank is down"}).status_code == 201
    ended = end(playbooks, playbooks.run("workflow: [{step: s, tool: {name: bill, kind: compute, tags: billing}}]"))
    error = ended["result"]["failures"][0]["error"]
    assert (error["kind"], error["retryable"], asked) == ("suspended", True, [])
