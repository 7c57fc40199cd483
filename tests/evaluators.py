"""One table of all that authors can make evaluators do: each function, filter, test, method and operator of the four
languages with its cost, and with the worst inputs that are admissible.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from msgspec import Struct

from statewright.conditions import EvaluationError, Visits, compile_predicate, parse
from statewright.conditions.evaluate import BRANCH_COSTS, compile_value_test
from statewright.conditions.plan import Branch
from statewright.conditions.syntax import OPERATORS as CONDITION_OPERATORS
from statewright.conditions.syntax import TEXT_OPERATORS
from statewright.conditions.texts import TEXT_TESTS
from statewright.entity import EntityMeta
from statewright.evaluation import Turn
from statewright.evaluation.costs import Entry
from statewright.expressions import ExpressionBudget, ExpressionError, compile_expression, evaluate
from statewright.expressions.compiling import SLICE
from statewright.expressions.functions import FUNCTIONS
from statewright.expressions.functions.times import METHODS
from statewright.expressions.operators import DEEP_OPERATORS, OPERATORS
from statewright.expressions.predicates import PREDICATE_FUNCTIONS
from statewright.flows.guards import GuardTooBroad, parse_guard
from statewright.flows.guards.values import COMPARISONS
from statewright.flows.guards.values import FUNCTIONS as GUARD_FUNCTIONS
from statewright.jsonval.values import DataType, JsonObject
from statewright.loop.turns import MAX_TURN_ELEMENTS, TurnExceeded
from statewright.playbooks.jinja.compiling import compile_text
from statewright.playbooks.jinja.values import EvaluationFailed, Frame
from statewright.schema.node import DeclaredField
from tests import hostile_conditions, hostile_expressions, hostile_guards, hostile_templates
from tests.hostile_documents import DOCUMENT, measure

Source = TypeVar("Source")
_TRIES: Final = 5


class Evaluator(Struct, Generic[Source], frozen=True, kw_only=True):
    """A language."""

    packages: tuple[str, ...]
    """Where it has its tables."""
    entries: Mapping[str, Entry]
    worst: Mapping[str, Sequence[Source]]
    """What an author writes, by the names of the entries."""
    prepare: Callable[[Source], Callable[[], object]]
    """What an author wrote, compiled: to be evaluated once, within a turn of the event loop."""

    def find_slow(self, name: str, limit_s: float) -> Mapping[str, float]:
        """The worst inputs of an entry that take more processor time within a turn, each time that they are tried, with
        the least that they took, in seconds.
        """
        slow: dict[str, float] = {}
        for source in self.worst[name]:
            taken = measure(self.prepare(source))
            tries = 1
            while taken > limit_s and tries < _TRIES:  # others run on this machine, too
                taken = min(taken, measure(self.prepare(source)))
                tries += 1
            if taken > limit_s:
                slow[str(source)[:200]] = taken
        return slow


def _prepare_condition(source: JsonObject) -> Callable[[], object]:
    predicate = compile_predicate(parse(source), _DECLARED)

    def act() -> None:
        with suppress(EvaluationError, TurnExceeded):
            predicate(hostile_conditions.STORED, _META, Visits(within_turn=True))

    return act


def _prepare_expression(source: str) -> Callable[[], object]:
    with suppress(ExpressionError):
        compile_expression(source)

    def act() -> None:
        with suppress(ExpressionError, TurnExceeded):
            evaluate(source, hostile_expressions.VARIABLES, 0, ExpressionBudget(within_turn=MAX_TURN_ELEMENTS))

    return act


def _prepare_template(source: str) -> Callable[[], object]:
    compiled = compile_text(f"{{{{ {source} }}}}", statements=True)

    def act() -> None:
        with suppress(EvaluationFailed, TurnExceeded):
            compiled.evaluate(Frame(hostile_templates.WORKLOAD, Turn()))

    return act


def _prepare_guard(source: str) -> Callable[[], object]:
    guard = parse_guard(source)

    def act() -> None:
        with suppress(GuardTooBroad):
            guard.judge(DOCUMENT, MAX_TURN_ELEMENTS)

    return act


def _price_branch(branch: Branch) -> object:
    return BRANCH_COSTS[type(branch)](branch)


def _enter_condition(operator: str) -> Entry:
    """An operator on texts has the cost that its test says, others that of the branches of their plan."""
    if operator not in TEXT_OPERATORS:
        return Entry(compile_value_test, _price_branch)  # type: ignore[arg-type] # from a branch to its cost
    build = TEXT_TESTS[TEXT_OPERATORS[operator]]
    return Entry(build, build("a%").count_visits)


_DECLARED: Final = {place: DeclaredField(types=frozenset(DataType)) for place in hostile_conditions.PLACES}
_META: Final = EntityMeta(
    id="a" * 36, state="S" * 200, creation_date=0, last_update_time=0, transition="t", transaction_id="x"
)

CONDITIONS: Final = Evaluator(
    packages=(),
    entries={name: _enter_condition(name) for name in CONDITION_OPERATORS},
    worst={name: [*hostile_conditions.iterate_operator_shapes(name)] for name in hostile_conditions.OPERANDS},
    prepare=_prepare_condition,
)
EXPRESSIONS: Final = Evaluator(
    packages=("statewright.expressions",),
    entries={
        **FUNCTIONS,
        **PREDICATE_FUNCTIONS,
        **OPERATORS,
        **DEEP_OPERATORS,
        "[:]": SLICE,
        **{f"{kind.__name__}.{name}": entry for (kind, name), entry in METHODS.items()},
    },
    worst=hostile_expressions.WORST,
    prepare=_prepare_expression,
)
TEMPLATES: Final = Evaluator(
    packages=("statewright.playbooks.jinja",),
    entries=hostile_templates.TABLE,
    worst=hostile_templates.WORST,
    prepare=_prepare_template,
)
GUARDS: Final = Evaluator(
    packages=("statewright.flows.guards",),
    entries={**GUARD_FUNCTIONS, **COMPARISONS},
    worst=hostile_guards.WORST,
    prepare=_prepare_guard,
)
EVALUATORS: Final[Mapping[str, Evaluator[str] | Evaluator[JsonObject]]] = {
    "conditions": CONDITIONS,
    "expressions": EXPRESSIONS,
    "templates": TEMPLATES,
    "guards": GUARDS,
}
