"""What an execution computes while others wait for the event loop (docs/reference/executions.md)."""

from collections.abc import Mapping

import pytest

from statewright.jsonval.values import JsonObject
from statewright.loop.turns import TurnExceeded
from statewright.net import IDS_PER_MOMENT, Marking, Moment, advance, start
from statewright.net.effects import Patched, TaskCompleted
from statewright.playbooks.context import build_data
from statewright.playbooks.templates import Turn
from tests.unit.playbooks.traces import compile_text

GATE = """
workflow:
- {step: s, next: {spec: {mode: inclusive}, arcs: [{step: g}, {step: g}, {step: g}, {step: g}]}}
- {step: g, spec: {policy: {admit: {rules: [{when: '{{ WHEN }}', then: {allow: true}}]}}}}
"""
ARC = """
workflow:
- {step: s, next: {arcs: [{step: t, when: '{{ WHEN }}'}, {step: t, args: {x: '{{ WHEN }}'}}]}}
- {step: t}
"""
NOOP = """
workflow:
- {step: s, tool: {kind: noop, spec: {policy: {rules: [{when: '{{ WHEN }}', then: {do: continue}}]}}}}
"""
LONG = "range(20000) | sum == 1"


def begin(text: str, turn: Turn | None) -> Marking:
    compiled = compile_text(text.replace("WHEN", LONG))
    data: Mapping[str, object] = build_data(compiled.playbook, "x", {}, {})
    moment = Moment(at=1, first_id=1)
    return start(compiled.net, compiled.create_language(1, turn), data, moment).marking  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [GATE, ARC, NOOP], ids=["admission", "arcs", "pipeline"])
def test_a_turn_ends_what_would_hold_others_up(text: str):
    with pytest.raises(TurnExceeded):
        begin(text, Turn())
    assert begin(text, None).phase in ("COMPLETED", "WAITING")


def test_what_was_given_up_is_done_again_on_the_same_marking():
    """An advance that raises has changed nothing that others see."""
    compiled = compile_text("workflow: [{step: s, tool: {kind: compute}, next: {arcs: [{step: t}]}}, {step: t}]")
    data: JsonObject = build_data(compiled.playbook, "x", {}, {})
    marking = start(compiled.net, compiled.create_language(1), data, Moment(at=1, first_id=1)).marking
    (work,) = [token.work for token in marking.tokens]
    assert work is not None
    moment = Moment(at=2, first_id=IDS_PER_MOMENT)
    with pytest.raises(TurnExceeded):
        advance(compiled.net, compiled.create_language(1, Turn(1)), marking, TaskCompleted(work, 1), moment)
    again = advance(compiled.net, compiled.create_language(1), marking, TaskCompleted(work, 1), moment)
    assert again.marking.phase == "COMPLETED"
    assert advance(compiled.net, compiled.create_language(1), again.marking, Patched({}), moment).effects == ()
