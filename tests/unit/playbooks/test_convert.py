"""Playbooks in older public forms, converted to the form of today (docs/reference/playbooks.md#older-forms)."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks import read_playbook
from statewright.playbooks.compiling import compile_net
from statewright.playbooks.convert import Conversion, convert_playbook
from statewright.playbooks.convert_names import OUTCOME_NAMES, rename
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.documents import read_document, write_document
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.running import LocalExecution
from statewright.playbooks.survey import sum_up, survey_playbook
from tests.unit.playbooks.traces import read_traces

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = ROOT / "tests" / "conformance" / "playbooks" / "public"
PAGE = (ROOT / "docs" / "reference" / "playbooks.md").read_text()
FILES = sorted(PUBLIC.glob("*.yaml"))
CONVERTIBLE = [file for file in FILES if file.stem not in ("beyond", "today")]
TODAY = [
    *(read_document(text) for text in re.findall(r"```yaml\n(apiVersion.*?)```", PAGE, re.DOTALL)),
    *({"metadata": {"name": "case"}, **read_document(case.playbook)} for case in read_traces()),
]


@pytest.mark.parametrize("file", CONVERTIBLE, ids=lambda file: file.stem)
def test_an_older_playbook_is_refused_and_passes_once_it_is_converted(file: Path) -> None:
    assert read_playbook(file.read_text()).errors
    conversion = convert_playbook(file.read_text())
    assert (conversion.errors, bool(conversion.changes)) == ((), True)
    assert read_playbook(write_document(conversion.document)).errors == ()


@pytest.mark.parametrize("document", TODAY)
def test_a_playbook_of_today_comes_back_as_it_is(document: JsonObject) -> None:
    before = encode(document)
    conversion = convert_playbook(document)
    assert encode(conversion.document) == before
    assert conversion.changes == () == conversion.errors == conversion.warnings


@pytest.mark.parametrize("file", CONVERTIBLE, ids=lambda file: file.stem)
def test_what_was_converted_is_not_converted_again(file: Path) -> None:
    once = convert_playbook(file.read_text()).document
    assert convert_playbook(once).document == once


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_member_is_dropped_in_silence(file: Path) -> None:
    for document, path in list_strange(read_document(file.read_text())):
        conversion = convert_playbook(document)
        is_told = any(f"/{path}/strange".startswith(error.path) for error in conversion.errors)
        assert is_told or b"strange-value" in encode(conversion.document), path


def list_strange(document: JsonObject) -> Iterator[tuple[JsonObject, str]]:
    """The document with one more member, in each of its mappings."""
    text = encode(document)
    for path in list_mappings(document, ()):
        changed = decode(text)
        place: JsonValue = changed
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part] if isinstance(place, dict) else None
        assert isinstance(place, dict)
        assert isinstance(changed, dict)
        place["strange"] = "strange-value"
        yield changed, "/".join(path)


def list_mappings(value: JsonValue, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        yield path
        for name, member in value.items():
            yield from list_mappings(member, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from list_mappings(item, (*path, str(index)))


def play(name: str, answers: dict[str, list[JsonValue]]) -> tuple[str, list[str], dict[str, list[JsonObject]]]:
    """The status of a converted file, the tasks that ran, and what they were given; an answer below 0 fails."""
    document = convert_playbook((PUBLIC / f"{name}.yaml").read_text()).document
    return play_document(document, answers, {"name": "Ada"} if name == "workbook" else {})


def play_document(
    document: JsonObject, answers: dict[str, list[JsonValue]], workload: JsonObject
) -> tuple[str, list[str], dict[str, list[JsonObject]]]:
    """As :func:`play`."""
    playbook = read_playbook(document).playbook
    assert playbook is not None
    ran, given_ = list[str](), dict[str, list[JsonObject]]()

    def implement(call: ToolCall, _: Dispatch) -> Outcome:
        ran.append(call.label)
        given_.setdefault(call.label, []).append(call.fields)
        left = answers.get(call.label)
        answer = left.pop(0) if left else None
        if isinstance(answer, int) and answer < 0:
            http: JsonObject = {"status": -answer, "headers": {}}
            return fail("http", "failed", code=f"HTTP_{-answer}", status=-answer, http=http)
        return succeed(answer)

    execution = LocalExecution(compile_net(playbook), workload)
    execution.run(implement)
    return execution.status, ran, given_


def test_a_list_of_steps_goes_to_all_of_them() -> None:
    status, ran, _ = play("list_of_next", {})
    assert (status, sorted(ran)) == ("success", ["left_task", "right_task"])


def test_the_first_condition_of_a_list_decides() -> None:
    _, ran, given_ = play("conditions", {})
    assert ran == ["hot_task"]
    assert given_["hot_task"][0]["input"] == {"level": 30}


def test_a_case_goes_on_with_what_the_step_came_to() -> None:
    _, ran, given_ = play("case", {"ask_task": [{"status_code": 200, "data": [1, 2]}]})
    assert ran == ["ask_task", "store_task"]
    assert given_["store_task"][0]["input"] == {"items": [1, 2]}
    assert play("case", {"ask_task": [-404]})[1] == ["ask_task", "tell_task"]


def test_variables_begin_as_workload_and_go_on_in_ctx() -> None:
    assert play("variables", {"sum_task": [{"total": 3}]})[1] == ["sum_task", "large_task"]
    assert play("variables", {"sum_task": [{"total": 2}]})[1] == ["sum_task"]
    assert play("variables", {"sum_task": [{"total": 200}]})[1] == ["sum_task"]


def test_a_task_of_the_workbook_is_found_by_its_name() -> None:
    status, ran, given_ = play("workbook", {})
    assert (status, ran) == ("success", ["hello_task", "tidy_task"])
    assert given_["hello_task"][0]["input"] == {"name": "Ada"}


def test_loops_of_both_forms_run_for_each_element() -> None:
    status, ran, _ = play("loops", {})
    assert (status, ran.count("each_task"), ran.count("all_task")) == ("success", 2, 2)


def test_a_retry_is_a_rule_with_its_conditions() -> None:
    assert play("retry", {"get_task": [-503, -503, {"data": 1}]})[:2] == ("success", ["get_task"] * 3)
    assert play("retry", {"get_task": [-500]})[:2] == ("failed", ["get_task"])


def test_a_sink_stores_what_the_task_came_to() -> None:
    _, ran, given_ = play("store", {"compute_task": [{"n": 7}]})
    assert ran == ["compute_task", "sink"]
    assert given_["sink"][0]["command"] == "insert into t values (7)"


def test_rules_of_a_task_are_its_policy() -> None:
    answers: dict[str, list[JsonValue]] = {"fetch": [-503, {"data": {"more": True}}, {"data": {"more": False}}]}
    assert play("rules", answers)[:2] == ("success", ["fetch", "fetch", "save", "fetch", "save"])


def test_what_cannot_be_converted_is_named_with_a_hint() -> None:
    conversion = convert_playbook((PUBLIC / "beyond.yaml").read_text())
    told = {error.path: error.message for error in conversion.errors}
    assert told == {
        "/workflow/0/retry": "cannot be converted; expected do: retry in spec.policy.rules of the task",
        "/workflow/0/case/0/then/call": "cannot be converted; expected a step with that tool, and an arc to it",
    }


def convert_step(step: JsonObject) -> Conversion:
    """A step of today but for what is tried, and one that it may go to."""
    steps: list[JsonValue] = [{"step": "a", "tool": {"kind": "shell", "command": "x"}, **step}]
    steps.append({"step": "b", "tool": {"kind": "shell", "command": "y"}})
    return convert_playbook({"apiVersion": "noetl.io/v2", "metadata": {"name": "p"}, "workflow": steps})


def test_a_branch_that_goes_nowhere_keeps_those_behind_it_from_going_on() -> None:
    conversion = convert_step({"case": [{"when": "{{ workload.stop }}", "then": []}, {"else": [{"step": "b"}]}]})
    assert conversion.errors == ()
    assert play_document(conversion.document, {}, {"stop": True})[1] == ["a_task"]
    assert play_document(conversion.document, {}, {"stop": False})[1] == ["a_task", "b_task"]


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ({"case": [{"when": "{{ 1 }}", "then": [{"step": "b", "when": "{{ 2 }}"}]}]}, "case/0"),
        ({"case": [{"when": "{{ 1 }}", "expr": "{{ 2 }}", "then": "b"}]}, "case/0/expr"),
        ({"next": [{"step": "b", "when": "{{ 1 }}", "condition": "{{ 2 }}"}]}, "next/0/condition"),
        ({"next": [{"step": "b", "args": {"x": 1}, "with": {"x": 2}}]}, "next/0/with"),
        ({"loop": {"collection": [1], "in": [2], "iterator": "i"}}, "loop/in"),
        ({"loop": {"in": [1], "iterator": "i", "mode": "async", "spec": {"mode": "sequential"}}}, "loop/mode"),
        ({"retry": {"attempts": 1, "max_attempts": 2}}, "retry/max_attempts"),
        ({"tool": {"kind": "noop", "eval": [{"expr": "{{ 1 }}", "when": "{{ 2 }}"}]}}, "tool/eval/0/when"),
        ({"vars": {"x": 1}, "set": {"ctx.x": 2}}, "vars"),
        ({"next": [{"step": "b", "vars": {"x": 1}, "set": {"ctx.x": 2}}]}, "next/0/set"),
    ],
)
def test_of_two_members_that_mean_the_same_none_is_dropped_in_silence(step: JsonObject, path: str) -> None:
    assert [error.path for error in convert_step(step).errors] == [f"/workflow/0/{path}"]


def test_an_arc_assigns_what_both_of_its_members_say() -> None:
    written = encode(convert_step({"next": [{"step": "b", "vars": {"x": 1}, "set": {"ctx.y": 2}}]}).document)
    assert b'"set":{"ctx.x":1,"ctx.y":2}' in written


def test_a_text_that_is_no_document_is_an_error() -> None:
    conversion = convert_playbook("a: 1\na: 2\n")
    assert (conversion.document, len(conversion.errors)) == ({}, 1)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ result.x }} and result", "{{ outcome.result.x }} and result"),
        ("{{ a.result | map(attribute='result') }}", "{{ a.result | map(attribute='result') }}"),
        ("{{ f(result=result) }}", "{{ f(result=outcome.result) }}"),
        ("{% if error %}{{ this.data }}{% endif %}\n", "{% if outcome.error %}{{ outcome.data }}{% endif %}\n"),
        ("{{ own.result }} {{ '{{ result }}' }}", "{{ own.result }} {{ '{{ result }}' }}"),
    ],
)
def test_names_are_exchanged_where_they_are_names(source: str, expected: str) -> None:
    assert rename(source, OUTCOME_NAMES, frozenset()) == expected
    assert rename("{{ result }}", OUTCOME_NAMES, frozenset({"result"})) == "{{ result }}"


numbers = st.integers(-(10**20), 10**20) | st.decimals(allow_nan=False, allow_infinity=False, places=3)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
ambiguous = st.sampled_from(
    ["yes", "null", "~", "1e5", "0o17", "1:30", ".5", "-", "a\nb\n", "<<", "=", " x ", "|\n", "a\nb\x85c"]
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | ambiguous,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | ambiguous, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(texts | ambiguous, values, max_size=4))
@example({"\x85": "\x85", "a\nb\x85c": ["a\n\x85\n"]})
def test_a_document_that_is_written_is_read_as_it_was(document: JsonObject) -> None:
    assert read_document(write_document(document)) == document


def test_exact_numbers_are_written_with_all_digits() -> None:
    document: JsonObject = {"n": Decimal("0.10000000000000000000000001"), "large": Decimal("1e+400")}
    assert read_document(write_document(document)) == document


def test_a_survey_counts_what_public_playbooks_need() -> None:
    survey = sum_up(survey_playbook(file.name, file.read_text()) for file in FILES)
    assert survey.totals.files == {"all": len(FILES), "convertible": len(CONVERTIBLE), "findings": 1, "ok": 1}
    assert set(survey.totals.worker_kinds) == {"python", "postgres", "duckdb", "shell"}
    assert "http" in survey.totals.kinds
    assert survey.totals.credentials == ("pg_main", "{{ workload.db }}")
    [beyond] = [file for file in survey.files if file.state == "findings"]
    assert [finding.path for finding in beyond.templates] == ["/workflow/1/tool/text"]


def test_a_document_of_another_kind_is_no_playbook() -> None:
    assert survey_playbook("c", "kind: Credential\nmetadata: {name: pg}\n").state == "other"
