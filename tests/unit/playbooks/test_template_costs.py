"""Each function, filter, method, test, operator and node of templates counts its work before it does it
(docs/reference/playbooks.md#templates).
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

from statewright.evaluation.costs import Turn
from statewright.jsonval.values import JsonValue
from statewright.loop.turns import TurnExceeded
from statewright.playbooks.jinja.compiling import compile_text
from statewright.playbooks.jinja.values import EvaluationFailed, Frame, to_json
from statewright.playbooks.templates import Problem, compile_template, render
from tests.hostile_templates import INLINE, KNOWN, LOOPS, SYNTAX, WORKLOAD, WORST, list_shapes, make_shapes

MAX_UNCOUNTED_S = 0.05
"""Of processor time, that anything may take beside what it was charged."""
MAX_S_PER_STEP = 4e-6
"""A step is a microsecond of a core; this one may be slow and busy."""
MAX_EVALUATION_S = 5
SAMPLE_S = 0.002
TRIES = 5
SHAPES = list(list_shapes())


class MeasuredFrame(Frame):
    """Measures what is done between two charges, beside what the first of them allows.

    It looks at the clock of the process, which is slow, when some milliseconds have passed.
    """

    def __init__(self, scope: Mapping[str, JsonValue], turn: Turn | None = None) -> None:
        super().__init__(scope, turn)
        self.uncounted_s = 0.0
        self._allowed_s = 0.0
        self._at = time.perf_counter()
        self._begun = time.process_time()

    def spend(self, units: int) -> None:
        if time.perf_counter() - self._at > SAMPLE_S:
            self.note()
        self._allowed_s += units * MAX_S_PER_STEP
        super().spend(units)

    def note(self) -> None:
        now = time.process_time()
        self.uncounted_s = max(self.uncounted_s, now - self._begun - self._allowed_s)
        self._allowed_s, self._begun, self._at = 0.0, now, time.perf_counter()


def measure(source: str, begin_turn: Callable[[], Turn | None] = lambda: None) -> tuple[float, float]:
    """The longest stretch that was not counted, and the whole, in seconds of processor time: the least of some times
    where it is long, since others run on this machine, too.
    """
    uncounted, whole = measure_once(source, begin_turn())
    for _ in range(TRIES - 1):
        if uncounted < MAX_UNCOUNTED_S and (begin_turn is not Turn or whole < MAX_UNCOUNTED_S):
            break
        again = measure_once(source, begin_turn())
        uncounted, whole = min(uncounted, again[0]), min(whole, again[1])
    return uncounted, whole


def measure_once(source: str, turn: Turn | None) -> tuple[float, float]:
    """The same, of one evaluation."""
    compiled = compile_text(source, statements=True)
    frame = MeasuredFrame(WORKLOAD, turn)
    begun = time.process_time()
    with suppress(EvaluationFailed, TurnExceeded):
        to_json(compiled.evaluate(frame), frame)
    frame.note()
    return frame.uncounted_s, time.process_time() - begun


def test_every_node_and_statement_has_worst_inputs() -> None:
    assert set(SYNTAX) == set(LOOPS)
    assert all(LOOPS.values())


@pytest.mark.parametrize("name", [*WORST, *LOOPS])
def test_no_entry_does_work_that_is_not_counted(name: str) -> None:
    for source in [source for entry, source in SHAPES if entry == name]:
        uncounted, whole = measure(source)
        assert uncounted < MAX_UNCOUNTED_S, source[:200]
        assert whole < MAX_EVALUATION_S, source[:200]


@pytest.mark.parametrize("source", [*KNOWN, *make_shapes(100)], ids=str)
def test_hostile_templates_end_by_their_budget(source: str) -> None:
    uncounted, whole = measure(source)
    assert uncounted < MAX_UNCOUNTED_S
    assert whole < MAX_EVALUATION_S


def test_a_turn_ends_before_others_notice() -> None:
    """However long an evaluation is: what was done on the event loop before it was given up."""
    decoding = [source for name, source in SHAPES if name == "filter fromjson"]
    loops = [cases[0] for cases in LOOPS.values()]
    worst = max((measure(source, Turn)[1], source) for source in [*KNOWN, *decoding, *loops])
    assert worst[0] < MAX_UNCOUNTED_S, worst[1][:200]


def test_templates_can_make_the_worst_values_themselves() -> None:
    assert set(INLINE) == set(WORKLOAD)
    problems = {name: render(compile_template(f"{{{{ {text} }}}}"), {}) for name, text in INLINE.items()}
    assert [name for name, value in problems.items() if isinstance(value, Problem)] == []
