"""Warnings at upload: allowed, but hardly meant."""

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps.documents import definition_from_document
from statewright.steps.upload import lint_definition
from tests.unit.steps.builders import (
    a_definition,
    a_rule,
    a_step,
    decision,
    end,
    fork,
    join,
    service,
    table,
    timer,
    transformation,
    user,
)


def of_steps(*steps: JsonObject) -> list[str]:
    return list(lint_definition(definition_from_document(a_definition(*steps))))


def test_a_sound_definition_gives_no_warning():
    steps = (
        fork("fork", "join", "a", "b"),
        service("a", "join", boundaryEvents=[timer("PT1H", "late")]),
        user("b", "join"),
        service("late", "join"),
        join("join", "route"),
        decision("route", {"x > 1": "t", "true": "end"}),
        table("t", "end", a_rule({"x": "x > 5"}, y=1), a_rule({}, y=2)),
        end(),
    )
    assert of_steps(*steps) == []


def test_a_branch_that_cannot_reach_its_join_is_told():
    steps = (fork("fork", "join", "a", "b"), service("a", "join"), service("b", "end"), join("join", "end"), end())
    assert of_steps(*steps) == ['step "fork": branch "b" never reaches "join"; the join waits for ever']


def test_a_join_that_no_gateway_names_is_told():
    assert of_steps(service("work", "join"), join("join", "end"), end()) == [
        'step "join": no PARALLEL_GATEWAY has this step as its joinStep; an instance that reaches it fails'
    ]


def test_a_join_step_of_another_type_is_told():
    steps = (
        fork("fork", "after", "a", "b"),
        service("a", "after"),
        service("b", "after"),
        service("after", "end"),
        end(),
    )
    assert of_steps(*steps) == ['step "fork": joinStep "after" is no JOIN_GATEWAY; the branches are never joined']


def test_a_decision_that_may_match_nothing_is_told():
    assert of_steps(decision("route", {"x == 'A'": "end", "x == 'B'": "end"}), end()) == [
        'step "route": no branch is certain to match; without a last branch on true an instance may fail here'
    ]


def test_decisions_that_cover_everything_are_not_told():
    for branches in (
        {"x > 1": "end", "true": "end"},
        {"x >= 5": "end", "x < 5": "end"},
        {"x == 'A'": "end", "#x != 'A'": "end"},
        {"#x == true": "end", "#x == false": "end"},
    ):
        assert of_steps(decision("route", branches), end()) == []


def test_tests_of_different_things_do_not_cover_everything():
    for branches in (
        {"x >= 5": "end", "y < 5": "end"},
        {"x >= 5": "end", "x < 6": "end"},
        {"x == true": "end", "x == 'false'": "end"},
        {"x == true": "end", "x == true ": "end"},
        {"x": "end"},
    ):
        assert len(of_steps(decision("route", branches), end())) == 1


def test_a_table_without_a_catch_all_is_told():
    assert of_steps(table("t", "end", a_rule({"x": "x > 1"})), end()) == [
        'step "t": no rule is certain to match; without a rule with an empty when an instance may fail here'
    ]
    assert of_steps(table("t", "end", a_rule({"x": " "})), end()) == []


def test_an_escalation_without_an_exit_is_told():
    steps = (user("ask", "end", boundaryEvents=[timer("PT1H", "late")]), service("late"), end())
    assert of_steps(*steps) == ['step "ask": boundaryEvents[0]: "late" leads to no END']


def test_a_timer_that_never_fires_is_told():
    steps = (decision("route", {"true": "end"}, boundaryEvents=[timer("PT1H", "end")]), end())
    assert of_steps(*steps) == ['step "route": boundaryEvents[0] never fires on a DECISION']


def test_ends_that_do_not_chain_are_told():
    steps = (decision("route", {"true": "yes", "false": "no"}), end("yes"), end("no"))
    chained = definition_from_document(a_definition(*steps, autoStartNextWorkflow=True, nextWorkflowId="next"))
    (told,) = lint_definition(chained)
    assert told.startswith('step "no": reaching it does not start "next"; only the first END, "yes", does')


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (["yes", "no"], []),
        (["no"], []),
        ("*", []),
        ([], []),
        (["yes", "route"], ['metadata.chainAtEnds: "route" is no END step']),
        (["gone", "no"], ['metadata.chainAtEnds: "gone" is no END step']),
        ("yes", ['metadata.chainAtEnds is neither "*" nor a list of END steps; it has no effect']),
        ([1], ['metadata.chainAtEnds is neither "*" nor a list of END steps; it has no effect']),
    ],
)
def test_ends_that_are_named_to_chain_are_checked(named: JsonValue, told: list[str]):
    steps = (decision("route", {"true": "yes", "false": "no"}), end("yes"), end("no"))
    chained = a_definition(
        *steps, autoStartNextWorkflow=True, nextWorkflowId="next", metadata={"chainAtEnds": named, "owner": "ann"}
    )
    found = lint_definition(definition_from_document(chained))
    assert [text for text in found if "metadata" in text and "only the first" not in text] == told


def test_naming_ends_without_a_successor_is_told():
    document = a_definition(end(), metadata={"chainAtEnds": "*"})
    assert list(lint_definition(definition_from_document(document))) == [
        "metadata.chainAtEnds has no effect without autoStartNextWorkflow and nextWorkflowId"
    ]


def test_malformed_expressions_are_told_wherever_they_stand():
    steps = (
        decision("route", {"x >": "calc", "true": "calc"}),
        transformation("calc", "t", ok="${x}", text="x >", bad="${'open}"),
        table("t", "end", a_rule({"c": "(", "d": " "}, out="${)}"), a_rule({})),
        end(),
    )
    assert of_steps(*steps) == [
        'step "route": conditionalNextSteps: expression "x >": unexpected end of expression',
        'step "calc": transformations.bad: expression "\'open": literal not terminated',
        'step "t": rules[0].when.c: expression "(": unexpected end of expression',
        'step "t": rules[0].outputs.out: expression ")": unexpected bracket ")"',
    ]


def test_large_definitions_are_looked_at_in_reasonable_time():
    steps: list[JsonObject] = []
    for n in range(3000):
        steps += [
            fork(f"f{n}", f"j{n}", f"a{n}", f"b{n}"),
            service(f"a{n}", f"j{n}"),
            service(f"b{n}", f"j{n}"),
            join(f"j{n}", f"f{n + 1}"),
        ]
    assert of_steps(*steps, a_step("f3000", "END")) == []
