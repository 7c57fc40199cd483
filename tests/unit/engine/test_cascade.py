"""The cascade as a pure function, compared with the rules read naively (docs/reference/workflows.md#the-cascade)."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from statewright.conditions import Function, parse
from statewright.engine.cascade import MAX_CASCADE_STEPS, Abort, Ask, Fire, Move, Position, Settled, decide_next_move
from statewright.jsonval.values import JsonValue
from statewright.workflow import Criterion, State, Transition, Workflow
from statewright.workflow.definition import Contract

GUARD: JsonValue = {"type": "simple", "jsonPath": "$.a", "operatorType": "NOT_NULL"}
EXTERNAL: JsonValue = {"type": "function", "function": {"name": "ask-me"}}


def a_criterion(source: JsonValue = GUARD) -> Criterion:
    return Criterion(source=source, condition=parse(source), defect="", label="simple")


def automated(name: str, to: str, *, criterion: Criterion | None = None, disabled: bool = False) -> Transition:
    return Transition(name=name, next=to, criterion=criterion, disabled=disabled)


def manual(name: str, to: str) -> Transition:
    return Transition(name=name, next=to, manual=True)


def a_workflow(**states: list[Transition]) -> Workflow:
    return Workflow(
        version="1.3",
        contract=Contract.STRICT,
        name="flow",
        initial_state=next(iter(states)),
        states={name: State(name=name, transitions=tuple(transitions)) for name, transitions in states.items()},
    )


def settle(workflow: Workflow, state: str, held: Mapping[str, bool], *, max_visits: int = 10) -> tuple[list[str], Move]:
    """The states a cascade passes through, and how it ends; external criteria are answered like the others."""
    position, states = Position.start_at(state), [state]
    while True:
        move = decide_next_move(
            workflow, position, lambda t: t.criterion is None or held[t.name], max_visits=max_visits
        )
        match move:
            case Fire(transition):
                position = position.move_to(transition.next)
                states.append(transition.next)
            case Ask(transition):
                position = position.with_answer(transition.name, matches=held[transition.name])
            case Settled() | Abort():
                return states, move


def test_a_state_without_automated_transitions_is_stable():
    assert settle(a_workflow(NEW=[manual("GO", "DONE")], DONE=[]), "NEW", {}) == (["NEW"], Settled())


def test_an_unguarded_automated_transition_hides_those_after_it():
    workflow = a_workflow(NEW=[automated("TAKE", "TAKEN"), automated("NEVER", "LOST")], TAKEN=[], LOST=[])
    assert settle(workflow, "NEW", {})[0] == ["NEW", "TAKEN"]


def test_the_first_transition_whose_criterion_holds_fires():
    workflow = a_workflow(
        NEW=[automated("A", "X", criterion=a_criterion()), automated("B", "Y", criterion=a_criterion())], X=[], Y=[]
    )
    assert settle(workflow, "NEW", {"A": False, "B": True})[0] == ["NEW", "Y"]


def test_disabled_and_manual_transitions_are_skipped():
    workflow = a_workflow(
        NEW=[automated("OFF", "X", disabled=True), manual("M", "X"), automated("ON", "Y")], X=[], Y=[]
    )
    assert settle(workflow, "NEW", {})[0] == ["NEW", "Y"]


def test_what_was_declined_is_named_in_order():
    first, second = automated("A", "X", criterion=a_criterion()), automated("B", "X", criterion=a_criterion())
    workflow = a_workflow(NEW=[first, second], X=[])
    assert settle(workflow, "NEW", {"A": False, "B": False})[1] == Settled((first, second))


def test_an_external_criterion_is_asked_once_and_what_came_before_it_is_declined_once():
    before, asked = automated("A", "X", criterion=a_criterion()), automated("B", "X", criterion=a_criterion(EXTERNAL))
    assert isinstance(asked.criterion and asked.criterion.condition, Function)
    workflow = a_workflow(NEW=[before, asked], X=[])
    position = Position.start_at("NEW")
    move = decide_next_move(workflow, position, lambda _: False, max_visits=10)
    assert move == Ask(asked, (before,))
    assert (
        decide_next_move(workflow, position.with_answer("B", matches=False), lambda _: False, max_visits=10)
        == Settled()
    )
    assert decide_next_move(workflow, position.with_answer("B", matches=True), lambda _: False, max_visits=10) == Fire(
        asked
    )


def test_the_eleventh_visit_of_a_state_aborts():
    workflow = a_workflow(A=[automated("LOOP", "A", criterion=a_criterion())])
    states, end = settle(workflow, "A", {"LOOP": True})
    assert (len(states), end) == (11, Abort('state "A" visited 11 times (limit: 10)'))


def test_a_chain_of_a_hundred_transitions_aborts_and_one_of_ninety_nine_does_not():
    chain = {f"S{n}": [automated(f"T{n}", f"S{n + 1}")] for n in range(MAX_CASCADE_STEPS)} | {
        f"S{MAX_CASCADE_STEPS}": []
    }
    assert settle(a_workflow(**chain), "S0", {})[1] == Abort('cascade depth exceeded (100) at state "S100"')
    assert settle(a_workflow(**chain), "S1", {}) == ([f"S{n}" for n in range(1, 101)], Settled())


STATES = "ABCD"


@st.composite
def workflows(draw: st.DrawFn) -> tuple[Workflow, dict[str, bool]]:
    """A random workflow and what its criteria say."""
    states, held = {}, {}
    for state in STATES:
        transitions = []
        for n in range(draw(st.integers(0, 3))):
            name = f"{state}{n}"
            criterion = draw(st.sampled_from([None, a_criterion(), a_criterion(EXTERNAL)]))
            held[name] = draw(st.booleans())
            kind = draw(st.sampled_from(["automated", "automated", "manual", "disabled"]))
            transitions.append(
                Transition(
                    name=name,
                    next=draw(st.sampled_from(STATES)),
                    criterion=criterion,
                    manual=kind == "manual",
                    disabled=kind == "disabled",
                )
            )
        states[state] = transitions
    return a_workflow(**states), held


def reference(workflow: Workflow, state: str, held: Mapping[str, bool], max_visits: int) -> tuple[list[str], str]:
    """The pseudo code of the specification, word by word."""
    visits: dict[str, int] = {}
    states = [state]
    for _ in range(100):
        visits[state] = visits.get(state, 0) + 1
        if visits[state] > max_visits:
            return states, "visits"
        for transition in workflow.states[state].transitions:
            if transition.disabled or transition.manual or transition.schedule:
                continue
            if transition.criterion and not held[transition.name]:
                continue
            state = transition.next
            states.append(state)
            break
        else:
            return states, "stable"
    return states, "depth"


@given(workflows(), st.integers(1, 40))
def test_the_cascade_agrees_with_the_specification_read_word_by_word(drawn, max_visits):
    workflow, held = drawn
    states, end = settle(workflow, "A", held, max_visits=max_visits)
    expected_states, expected_end = reference(workflow, "A", held, max_visits)
    assert states == expected_states
    match end:
        case Settled():
            assert expected_end == "stable"
        case Abort(reason):
            assert expected_end == ("depth" if "depth" in reason else "visits")
        case _:
            raise AssertionError(end)
