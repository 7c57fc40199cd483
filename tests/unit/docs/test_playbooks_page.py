"""The examples of docs/reference/playbooks.md do what their comments say."""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks import compile_playbook
from statewright.playbooks.compiling import compile_net
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.documents import read_document
from statewright.playbooks.jinja.filters import FILTERS
from statewright.playbooks.jinja.methods import FUNCTIONS
from statewright.playbooks.pipeline import PipelineState, ToolCall, begin, prepare, settle
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.running import LocalExecution
from statewright.playbooks.templates import compile_template, render

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "playbooks.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PLAYBOOKS = [text for text in BLOCKS if text.startswith("apiVersion")]
PIPELINES = [text for text in BLOCKS if "tool:" in text and not text.startswith("apiVersion")]
ROWS = re.findall(r"^\| `(.*?\{\{.*?)` \| `(.*?)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("text", PLAYBOOKS)
def test_a_playbook_does_what_its_comments_say(text: str) -> None:
    answers, asked, called = read_answers(text), defaultdict[str, list[JsonValue]](list), list[str]()

    def implement(call: ToolCall, dispatch: Dispatch) -> Outcome:
        called.append(call.label)
        asked[call.label].append(call.fields)
        return answers[call.label].pop(0) if answers[call.label] else succeed()

    workload = find_comment(text, "with")
    execution = LocalExecution(compile_net(compile_playbook(text)), None if workload is None else json.loads(workload))
    before, change, after = split_at_change(text)
    execution.run(implement)
    if change:
        assert execution.status == find_comment(before, "the status is")
        execution.patch(json.loads(change))
        execution.run(implement)
    assert execution.status == find_comment(after, "the status is")
    assert ", ".join(called) == find_comment(text, "the tasks are")
    expected = {
        label: json.loads(f"[{values}]") for label, values in re.findall(r"^# (\S+) gets (.*)$", text, re.MULTILINE)
    }
    assert {label: asked[label] for label in expected} == expected
    ctx = find_comment(text, "ctx is")
    assert ctx is None or json.loads(ctx) == execution.marking.data["ctx"]


def split_at_change(text: str) -> tuple[str, str, str]:
    """What stands before and after ``# after {"key": value}``, and what is patched there."""
    parts = re.split(r"^# after (.*)$", text, maxsplit=1, flags=re.MULTILINE)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", text)


def find_comment(text: str, what: str) -> str | None:
    """The rest of the comment that begins so."""
    found = re.search(rf"^# {what} (.*)$", text, re.MULTILINE)
    return None if found is None else found[1]


@pytest.mark.parametrize(("source", "value"), ROWS)
def test_a_template_has_the_value_that_is_beside_it(source: str, value: str) -> None:
    scope = decode(re.findall(r"^With `(.*)`:$", PAGE, re.MULTILINE)[0])
    assert isinstance(scope, dict)
    assert render(compile_template(source.replace("\\|", "|")), scope) == decode(value)


def test_there_are_examples_of_all_kinds() -> None:
    assert (len(PLAYBOOKS) >= 3, len(PIPELINES) >= 3, len(ROWS) >= 15) == (True, True, True)


@pytest.mark.parametrize("text", PIPELINES)
def test_a_pipeline_does_what_its_comments_say(text: str) -> None:
    document: JsonObject = {"metadata": {"name": "x"}, "workflow": [{"step": "s", **read_document(text)}]}
    dispatch = Dispatch(tasks=compile_playbook(document).steps[0].tasks)
    answers, called, state = read_answers(text), list[str](), begin(dispatch)
    assert isinstance(state, PipelineState)
    while True:
        prepared = prepare(dispatch, state)
        if isinstance(prepared, ToolCall):
            called.append(prepared.label)
            prepared = answers[prepared.label].pop(0) if answers[prepared.label] else succeed()
        turn = settle(dispatch, state, prepared)
        state = turn.state
        if turn.end is not None:
            break
    expected = dict(re.findall(r"^# (?:the )?(tasks|ctx|result) (?:is|are) (.*)$", text, re.MULTILINE))
    assert ", ".join(called) == expected["tasks"]
    assert turn.end.is_ok is ("# it fails" not in text)
    assert json.loads(expected.get("ctx", "{}")) == state.ctx
    assert "result" not in expected or json.loads(expected["result"]) == turn.end.result
    assert not any(answers.values())


def read_answers(text: str) -> dict[str, list[Outcome]]:
    """What tasks answer in turn; a number is the status of an HTTP error."""
    found = defaultdict[str, list[Outcome]](list)
    for label, values in read_values(text, "answers").items():
        found[label] = [to_outcome(value) for value in values]
    return found


def to_outcome(answer: JsonValue) -> Outcome:
    if isinstance(answer, int):
        return fail("http", "error", status=answer, retryable=answer >= 500)
    return succeed(answer)


def read_values(text: str, verb: str) -> dict[str, list[JsonValue]]:
    """What tasks are given or answer, in turn: ``# get answers 503, {"n": 1}``."""
    lines = re.findall(rf"^# (\S+) {verb} (.*)$", text, re.MULTILINE)
    return {label: json.loads(f"[{values}]") for label, values in lines}


def test_all_filters_and_functions_are_listed() -> None:
    listed = PAGE.split("**Filters**:")[1].split("**Methods**")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == {*FILTERS, *FUNCTIONS}
