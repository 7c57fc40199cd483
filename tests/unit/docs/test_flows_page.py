"""The examples of docs/reference/flows.md and docs/guides/flows.md do what their comments say."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from statewright.flows import Invocation, LocalInstance, compile_graph, compile_text
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue

DOCS = Path(__file__).parents[3] / "docs"
PAGES = DOCS / "reference" / "flows.md", DOCS / "guides" / "flows.md"
EXAMPLES = [text for page in PAGES for text in re.findall(r"```flow\n(.*?)```", page.read_text(), re.DOTALL)]


def read_comments(text: str, verb: str) -> dict[str, list[JsonValue]]:
    """What tasks are given or answer, in turn: ``# load gives {"total": 120}``, ``# check gets nothing``."""
    found = defaultdict[str, list[JsonValue]](list)
    for task, value in re.findall(rf"^# (\S+) {verb} (.*)$", text, re.MULTILINE):
        found[task] += [] if value == "nothing" else [decode(value)]
    return found


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_does_what_its_comments_say(text: str) -> None:
    answers, asked = read_comments(text, "gives"), defaultdict[str, list[JsonValue]](list)

    def implement(invocation: Invocation) -> JsonValue:
        node = invocation.node
        name = str(node.base) if node.kind == "task" else node.kind
        asked[name].append(invocation.input)
        return answers[name].pop(0) if answers[name] else invocation.input

    instance = LocalInstance(compile_graph(compile_text(text)))
    instance.run(implement)
    assert instance.status == "COMPLETED"
    expected = read_comments(text, "gets")
    assert {task: asked[task] for task in expected} == expected
    assert not any(answers.values())


@pytest.mark.parametrize(
    "text", [*EXAMPLES, *(file.read_text() for file in (DOCS.parent / "examples").rglob("*.flow"))]
)
def test_no_example_is_taken_for_a_mistake(text: str) -> None:
    assert compile_text(text).warnings == ()
