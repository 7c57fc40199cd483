"""Pipelines against a model of them: the loop of docs/reference/playbooks.md#pipelines, written down as it is."""

from itertools import cycle, islice

from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks import compile_playbook
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.policies import fail, succeed
from tests.unit.playbooks.pipelines import play

MOST = 40
WHENS = {None: lambda ok, n: True, "{{ outcome.status == 'ok' }}": lambda ok, n: ok, "{{ outcome.status == 'error' }}": lambda ok, n: not ok, "{{ _attempt == 2 }}": lambda ok, n: n == 2}  # fmt: skip # noqa: E501


def thens(labels: list[str]) -> st.SearchStrategy[JsonObject]:
    plain = st.sampled_from([{"do": "continue"}, {"do": "break"}, {"do": "fail"}])
    retry = st.builds(lambda n: {"do": "retry", "attempts": n}, st.integers(1, 4))
    jump = st.builds(lambda to: {"do": "jump", "to": to}, st.sampled_from(labels))
    set_ctx = st.builds(lambda then, n: {**then, "set_ctx": {"log": n}}, plain | retry | jump, st.integers(0, 9))
    return plain | retry | jump | set_ctx


@st.composite
def pipelines(draw: st.DrawFn) -> list[JsonObject]:
    labels = ["a", "b", "c"][: draw(st.integers(1, 3))]
    tasks: list[JsonObject] = []
    for label in labels:
        task: JsonObject = {"name": label, "kind": "x"}
        rules: list[JsonValue] = [
            {"then": then} if when is None else {"when": when, "then": then}
            for when, then in draw(st.lists(st.tuples(st.sampled_from(list(WHENS)), thens(labels)), max_size=3))
        ]
        if draw(st.booleans()):
            rules.append({"else": {"then": draw(thens(labels))}})
        policy: JsonObject = {"rules": rules}
        if draw(st.booleans()):
            policy["on_unmatched"] = draw(st.sampled_from(["fail", "continue"]))
        if rules or draw(st.booleans()):
            task["spec"] = {"policy": policy}
        tasks.append(task)
    return tasks


def simulate(tasks: list[JsonObject], outcomes: list[bool]) -> tuple[list[str], list[int], str, JsonValue]:
    """The labels that are called, what is written to ``ctx.log``, how it ends, and with what result."""
    counter, attempts, previous, called, written, endless = 0, 0, None, list[str](), list[int](), cycle(outcomes)
    while counter < len(tasks):
        task: dict = tasks[counter]  # type: ignore[type-arg]
        if len(called) == MOST:
            return called, written, "limit", previous
        called.append(task["name"])
        ok, attempt = next(endless), attempts + 1
        then = choose(task.get("spec", {}).get("policy"), ok, attempt)
        if "set_ctx" in then:
            written.append(then["set_ctx"]["log"])
        if ok:
            previous = len(called)
        if then["do"] == "retry":
            if attempt >= then["attempts"]:
                return called, written, "failed", previous
            attempts = attempt
            continue
        attempts = 0
        if then["do"] == "fail":
            return called, written, "failed", previous
        if then["do"] == "break":
            return called, written, "ok", previous
        counter = counter + 1 if then["do"] == "continue" else [t["name"] for t in tasks].index(then["to"])
    return called, written, "ok", previous


def choose(policy: dict | None, ok: bool, attempt: int) -> dict:  # type: ignore[type-arg]
    for rule in (policy or {}).get("rules", []):
        if "else" in rule:
            return rule["else"]["then"]
        if WHENS[rule.get("when")](ok, attempt):
            return rule["then"]
    return {"do": "continue" if ok or (policy or {}).get("on_unmatched") == "continue" else "fail"}


@given(pipelines(), st.lists(st.booleans(), min_size=1, max_size=12))
def test_a_pipeline_does_what_its_model_does(tasks: list[JsonObject], outcomes: list[bool]) -> None:
    document: JsonObject = {"metadata": {"name": "x"}, "workflow": [{"step": "s", "tool": list(tasks)}]}
    step = compile_playbook(document).steps[0]
    given_outcomes = (
        succeed(number) if ok else fail("x", "broken")
        for number, ok in enumerate(islice(cycle(outcomes), MOST + 1), start=1)
    )
    played = play(Dispatch(tasks=step.tasks, max_task_executions=MOST), given_outcomes)
    error = played.end.error
    how = "ok" if error is None else "limit" if error["kind"] == "limit" else "failed"
    found = ([call.label for call in played.calls], [patch.value for patch in played.patches], how, played.end.result)
    assert found == simulate(tasks, outcomes)
