"""The JSON Schema of playbooks takes what is read, and refuses members that are not (docs/reference/playbooks.md)."""

from collections.abc import Iterator

import pytest
from jsonschema import Draft202012Validator

from statewright.jsonval.values import JsonObject
from statewright.playbooks.json_schema import build_playbook_schema
from statewright.playbooks.reading import read_playbook
from tests.unit.playbooks.test_mistakes import CASES, EXAMPLES, FILES, HEADER
from tests.unit.playbooks.traces import read_traces

SCHEMA = build_playbook_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def list_readable() -> Iterator[tuple[str, JsonObject]]:
    texts = [
        *((f"{HEADER}{case['playbook']}") for case in CASES),
        *(text if "metadata:" in text else HEADER + text for text in (*EXAMPLES, *FILES)),
        *(HEADER + case.playbook for case in read_traces()),
    ]
    for number, text in enumerate(texts):
        reading = read_playbook(text)
        if not reading.errors:
            yield str(number), reading.document


READABLE = dict(list_readable())


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert len(READABLE) > 60


@pytest.mark.parametrize("name", READABLE)
def test_what_is_read_fits_the_schema(name: str) -> None:
    assert [f"{error.json_path} {error.message}" for error in VALIDATOR.iter_errors(READABLE[name])] == []


@pytest.mark.parametrize(
    "body",
    [
        "workflow: []",
        "worklfow: [{step: a}]",
        "workflow: [{stp: a}]",
        "workflow: [{step: a, toll: {kind: noop}}]",
        "workflow: [{step: a, tool: []}]",
        "workflow: [{step: a, tool: {kind: noop, spec: {policy: {rules: [{then: {do: contine}}]}}}}]",
        "workflow: [{step: a, tool: {kind: noop, spec: {policy: {rules: [{else: {do: continue}}]}}}}]",
        "workflow: [{step: a, loop: {iterator: x}}]",
        "workflow: [{step: a, loop: {in: [1], spec: {mode: paralel}}}]",
        "workflow: [{step: a, next: {arcs: [{stp: a}]}}]",
        "workflow: [{step: a, next: {spec: {mode: inclusiv}, arcs: [{step: a}]}}]",
        "workflow: [{step: a, spec: {join: {mode: most}}}]",
        "workflow: [{step: a, spec: {policy: {admit: {rules: [{when: x, than: {}}]}}}}]",
        "workflow: [{step: a}]\nexecutor: {spec: {timeout_s: soon}}",
        "workflow: [{step: a}]\nexecutor: {spec: {policy: {failure: {mode: fail_slow}}}}",
        "workflow: [{step: a}]\nkind: Playboook",
        "workflow: [{step: a}]\nkeychain: [{name: x}]",
    ],
)
def test_what_the_schema_refuses_is_an_error_for_the_reader_too(body: str) -> None:
    reading = read_playbook(HEADER + body)
    assert reading.errors
    assert not VALIDATOR.is_valid(reading.document)
