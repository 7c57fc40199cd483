"""Taking in a definition: read, check, compare, warn (docs/reference/steps.md#definitions).

What a definition may do but hardly means: told at upload, never refused.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Final

from msgspec import Struct

from statewright.expressions import ExpressionError, compile_expression
from statewright.expressions.lexer import Binary, Constant, Syntax
from statewright.jsonval.codec import encode_large
from statewright.jsonval.values import JsonObject, JsonValue, is_number, quote
from statewright.loop.turns import take_apart, use_once
from statewright.processes.language import Rejection
from statewright.steps.definition import CHAIN_AT_ENDS, TIMED_TYPES, Definition, Step, list_misfits, read_chain_at_ends
from statewright.steps.documents import UnreadableDefinition, definition_to_document, read_definition
from statewright.steps.tables import extract_expression, is_catch_all
from statewright.steps.validation import find_violations

Warnings = Iterator[str]

_OPPOSITES: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MAX_JOIN_WALK: Final = 5_000_000
"""Most steps and moves between them, times joins, for which the ways into the joins are looked at; beyond, an upload
would take seconds.
"""

_MAX_COMPARED_BRANCHES: Final = 200
"""Branches of a step that are compared with each other."""


def lint_definition(definition: Definition) -> tuple[str, ...]:
    """What looks like a mistake, in the order of the steps."""
    return tuple(chain.from_iterable(iterate_warnings(definition)))


def iterate_warnings(definition: Definition) -> Iterator[Sequence[str]]:
    """The same in portions, each of which takes a moment; together they hold a loop for too long."""
    sources = map_predecessors(definition)
    yield ()
    ends = find_ancestors((step.id for step in definition.steps if step.type == "END"), sources)
    yield ()
    joins: dict[str, frozenset[str]] = {}
    for join in _list_joins(definition, sources):
        joins[join] = find_ancestors([join], sources)
        yield ()
    named = {step.join_step for step in definition.steps if step.type == "PARALLEL_GATEWAY"}
    types = {step.id: step.type for step in definition.steps}
    yield (*_lint_chain_at_ends(definition), *list_misfits(definition))
    for step in definition.steps:
        texts = chain(
            _lint_gateways(step, types, joins, named),
            _lint_decisions(step),
            _lint_escalations(step, ends),
            _lint_expressions(step),
            _lint_chaining(step, definition),
        )
        yield [f"step {quote(step.id)}: {text}" for text in texts]


def _list_joins(definition: Definition, sources: Mapping[str, frozenset[str]]) -> Collection[str]:
    """The joins into which all ways are looked at; none where that would take too long."""
    joins = {step.join_step for step in definition.steps if step.type == "PARALLEL_GATEWAY"}
    ways = len(definition.steps) + sum(map(len, sources.values()))
    return joins if len(joins) * ways <= _MAX_JOIN_WALK else ()


def _lint_gateways(
    step: Step, types: Mapping[str, str], joins: Mapping[str, frozenset[str]], named: set[str]
) -> Warnings:
    if step.type == "JOIN_GATEWAY" and step.id not in named:
        yield "no PARALLEL_GATEWAY has this step as its joinStep; an instance that reaches it fails"
    if step.type != "PARALLEL_GATEWAY":
        return
    if types.get(step.join_step) != "JOIN_GATEWAY":
        yield f"joinStep {quote(step.join_step)} is no JOIN_GATEWAY; the branches are never joined"
        return
    ways = joins.get(step.join_step)
    for branch in step.parallel_next_steps:
        if ways is not None and branch not in ways:
            yield f"branch {quote(branch)} never reaches {quote(step.join_step)}; the join waits for ever"


def _lint_decisions(step: Step) -> Warnings:
    if step.type == "DECISION" and not _is_exhaustive(step):
        yield "no branch is certain to match; without a last branch on true an instance may fail here"
    rules = step.decision_table.rules if step.type == "DECISION_TABLE" and step.decision_table else ()
    if rules and not any(map(is_catch_all, rules)):
        yield "no rule is certain to match; without a rule with an empty when an instance may fail here"


def _lint_escalations(step: Step, ends: frozenset[str]) -> Warnings:
    for index, event in enumerate(step.boundary_events):
        if step.type not in TIMED_TYPES:
            yield f"boundaryEvents[{index}] never fires on a {step.type}"
        elif event.target_step_id not in ends:
            yield f"boundaryEvents[{index}]: {quote(event.target_step_id)} leads to no END"


def _lint_chaining(step: Step, definition: Definition) -> Warnings:
    """An END that the author has not named counts as left out on purpose when others are named."""
    if definition.successor is None or step.type != "END" or read_chain_at_ends(definition) is not None:
        return
    if step.id != definition.main_end:
        yield (
            f"reaching it does not start {quote(definition.successor)}; only the first END, "
            f"{quote(definition.main_end or '')}, does, unless metadata.{CHAIN_AT_ENDS} names it"
        )


def _lint_chain_at_ends(definition: Definition) -> Warnings:
    if CHAIN_AT_ENDS not in (definition.metadata or {}):
        return
    named = read_chain_at_ends(definition)
    if named is None:
        yield f'metadata.{CHAIN_AT_ENDS} is neither "*" nor a list of END steps; it has no effect'
    elif definition.successor is None:
        yield f"metadata.{CHAIN_AT_ENDS} has no effect without autoStartNextWorkflow and nextWorkflowId"
    elif named != "*":
        for end in named:
            if end not in definition.ends:
                yield f"metadata.{CHAIN_AT_ENDS}: {quote(end)} is no END step"


def _lint_expressions(step: Step) -> Warnings:
    """Syntax is not checked at upload (docs/reference/steps.md#validation), and a step with an error fails."""
    for expression in step.conditional_next_steps:
        yield from _lint_syntax("conditionalNextSteps", expression)
    for name, expression in _list_expressions(dict(step.transformations)):
        yield from _lint_syntax(f"transformations.{name}", expression)
    for index, rule in enumerate(step.decision_table.rules if step.decision_table else ()):
        for column, cell in rule.when.items():
            if cell.strip():
                yield from _lint_syntax(f"rules[{index}].when.{column}", cell)
        for name, expression in _list_expressions(rule.outputs):
            yield from _lint_syntax(f"rules[{index}].outputs.{name}", expression)


def _list_expressions(values: JsonObject) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        expression = extract_expression(value)
        if expression is not None:
            yield name, expression


def _lint_syntax(where: str, expression: str) -> Warnings:
    try:
        compile_expression(expression)
    except ExpressionError as error:
        yield f"{where}: {error}"


def _is_exhaustive(step: Step) -> bool:
    branches = [syntax for syntax in map(_parse_syntax, step.conditional_next_steps) if syntax is not None]
    if any(isinstance(branch, Constant) and branch.value is True for branch in branches):
        return True
    compared = branches[:_MAX_COMPARED_BRANCHES]
    try:
        return any(_are_complementary(a, b) for n, a in enumerate(compared) for b in compared[n + 1 :])
    except RecursionError:  # of tests of hundreds of terms
        return False


def _parse_syntax(expression: str) -> Syntax | None:
    try:
        return compile_expression(expression).syntax
    except ExpressionError:
        return None


def _are_complementary(first: Syntax, second: Syntax) -> bool:
    """Whether exactly one of two tests holds: ``x < 5`` and ``x >= 5``, or ``x == true`` and ``x == false``."""
    if not isinstance(first, Binary) or not isinstance(second, Binary) or first.left != second.left:
        return False
    if first.right == second.right:
        return _OPPOSITES.get(first.operator) == second.operator
    if first.operator != "==" or second.operator != "==":
        return False
    if not isinstance(first.right, Constant) or not isinstance(second.right, Constant):
        return False
    return {first.right.kind, second.right.kind} == {"bool"} and first.right.value is not second.right.value


# Where a token can go from a step, by the rules that hold at run time (docs/reference/steps.md#steps-at-run-time).


def list_successors(step: Step) -> tuple[str, ...]:
    """The steps a token at ``step`` may move to, each named as often as a way leads there."""
    timers = tuple(event.target_step_id for event in step.boundary_events) if step.type in TIMED_TYPES else ()
    return (*_list_routing_targets(step), *timers)


def map_predecessors(definition: Definition) -> Mapping[str, frozenset[str]]:
    """By step, the steps from which a token may come."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for step in definition.steps:
        for target in list_successors(step):
            sources[target].add(step.id)
    return {target: frozenset(found) for target, found in sources.items()}


def find_ancestors(targets: Iterable[str], sources: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """All steps from which one of ``targets`` can be reached, these themselves included."""
    found: set[str] = set()
    ahead = list(targets)
    while ahead:
        step_id = ahead.pop()
        if step_id not in found:
            found.add(step_id)
            ahead.extend(sources.get(step_id, ()))
    return frozenset(found)


def _list_routing_targets(step: Step) -> tuple[str, ...]:
    branches = tuple(step.conditional_next_steps.values())
    onward = (step.next_step,) if step.next_step else ()
    match step.type:
        case "DECISION":
            return branches
        case "SERVICE_TASK" | "USER_TASK" | "WAIT":
            return branches or onward
        case "PARALLEL_GATEWAY":
            return step.parallel_next_steps
        case "TRANSFORMATION" | "DECISION_TABLE" | "JOIN_GATEWAY":
            return onward
        case _:
            return ()


MAX_STEPS: Final = 10_000
"""Steps of a definition."""


class Accepted(Struct, frozen=True, kw_only=True):
    """A definition that may be stored."""

    definition: Definition
    content: str
    """Its content hash."""
    warnings: tuple[str, ...]
    """What is allowed but looks like a mistake."""


def accept_text(raw: bytes | str) -> Accepted | Rejection:
    """What was posted as a definition (docs/reference/steps.md#parsing)."""
    try:
        definition = read_definition(raw)
    except UnreadableDefinition as defect:
        return Rejection("bad-request", f"parse error: parse: {defect}")
    found = _find_violations(definition)
    if found:
        take_apart([definition.metadata or {}])
        return Rejection("bad-request", f"validation error: {_join_violations(found)}")
    return _accept(definition)


def accept_definition(definition: Definition) -> Accepted | Rejection:
    """A definition that came in another form than text (docs/reference/steps.md#grpc); the reasons are worded for
    gRPC.
    """
    found = _find_violations(definition)
    return Rejection("bad-request", _join_violations(found)) if found else _accept(definition)


def _find_violations(definition: Definition) -> tuple[str, ...]:
    """What keeps a definition from being stored; one that is too large is not looked at. Those stored stay usable."""
    return _find_excess(len(definition.steps)) or find_violations(definition)


def tell_excess(steps: int) -> str | None:
    """Why a definition of so many steps is refused, worded for gRPC: known before any of them is read."""
    found = _find_excess(steps)
    return _join_violations(found) if found else None


def _find_excess(steps: int) -> tuple[str, ...]:
    return (f"steps must be ≤ {MAX_STEPS}, got {steps}",) if steps > MAX_STEPS else ()


def _accept(definition: Definition) -> Accepted:
    return Accepted(definition=definition, content=hash_content(definition), warnings=lint_definition(definition))


def _join_violations(found: Iterable[str]) -> str:
    return "".join(["validation errors:", *(f"\n  {message}" for message in found)])


# Which version an uploaded definition gets: uploading the same content twice makes one
# (docs/reference/steps.md#versions).
#
# Content is equal as JSON is: the order of members and the spelling of numbers do not count. The exception are the
# places where order has a meaning: branches, transformations and the cells of a rule.

_ORDERED: Final = frozenset({"conditionalNextSteps", "transformations", "when"})


def hash_content(definition: Definition) -> str:
    """Equal for definitions of equal content, 64 hexadecimal digits."""
    document = definition_to_document(definition)
    metadata = document.pop("metadata", None)  # the author's own: no member of it has a meaning to us
    canonical: JsonValue = [_canonicalize(document, _ORDERED), _canonicalize(metadata, frozenset())]
    return hashlib.sha256(use_once(canonical, encode_large)).hexdigest()


def _canonicalize(value: JsonValue, ordered: frozenset[str]) -> JsonValue:
    if isinstance(value, dict):
        return {name: _canonicalize_member(name, member, ordered) for name, member in value.items()}
    if isinstance(value, list):
        return [_canonicalize(item, ordered) for item in value]
    if is_number(value):
        return {"number": _canonicalize_number(value)}
    return value


def _canonicalize_member(name: str, value: JsonValue, ordered: frozenset[str]) -> JsonValue:
    if name in ordered and isinstance(value, dict):
        return [[key, _canonicalize(item, frozenset())] for key, item in value.items()]
    if name == "outputs":
        return _canonicalize(value, frozenset())
    return _canonicalize(value, ordered)


def _canonicalize_number(value: int | Decimal) -> str:
    """One text for all spellings of a number."""
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant or not isinstance(exponent, int):
        return "0"
    return f"{'-' * sign}{significant}e{exponent + len(text) - len(significant)}"
