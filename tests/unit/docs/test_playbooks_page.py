"""The examples of docs/reference/playbooks.md are playbooks without errors, and do what their comments say."""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks import compile_playbook, read_playbook
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.documents import read_document
from statewright.playbooks.jinja.filters import FILTERS
from statewright.playbooks.jinja.functions import FUNCTIONS
from statewright.playbooks.outcomes import Outcome, fail, succeed
from statewright.playbooks.pipeline import PipelineState, ToolCall, begin, prepare, settle
from statewright.playbooks.templates import compile_template, render

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "playbooks.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PLAYBOOKS = [text for text in BLOCKS if text.startswith("apiVersion")]
PIPELINES = [text for text in BLOCKS if "tool:" in text and not text.startswith("apiVersion")]
ROWS = re.findall(r"^\| `(.*?\{\{.*?)` \| `(.*?)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("text", PLAYBOOKS)
def test_a_playbook_has_no_errors(text: str) -> None:
    assert read_playbook(text).errors == ()


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
    dispatch = Dispatch(tasks=compile_playbook(document, requires_header=False).steps[0].tasks)
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
    for label, values in re.findall(r"^# (\S+) answers (.*)$", text, re.MULTILINE):
        answers: list[JsonValue] = json.loads(f"[{values}]")
        found[label] = [fail("http", "error", status=a) if isinstance(a, int) else succeed(a) for a in answers]
    return found


def test_all_filters_and_functions_are_listed() -> None:
    listed = PAGE.split("**Filters**:")[1].split("**Methods**")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == {*FILTERS, *FUNCTIONS}
