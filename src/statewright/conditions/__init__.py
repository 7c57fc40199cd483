"""The condition language of searches, criteria, conditional deletes and statistics (spec/search.md).

A condition is parsed to a syntax tree, checked for its consumer and turned into a typed plan, once per query. The plan
is compiled: here to a predicate, elsewhere to what a database understands. Pure: no input, no output, no clock.
"""

from statewright.conditions.checks import check, check_against, check_form, check_statistics, unknown_paths
from statewright.conditions.criteria import check_criterion, criterion_findings
from statewright.conditions.evaluate import EvaluationError, Predicate, compile_plan, compile_predicate
from statewright.conditions.plan import Plan
from statewright.conditions.planning import plan_of
from statewright.conditions.syntax import Array, Condition, Function, Group, Lifecycle, MalformedCondition, Simple
from statewright.conditions.wire import parse, serialise

__all__ = [
    "Array",
    "Condition",
    "EvaluationError",
    "Function",
    "Group",
    "Lifecycle",
    "MalformedCondition",
    "Plan",
    "Predicate",
    "Simple",
    "check",
    "check_against",
    "check_criterion",
    "check_form",
    "check_statistics",
    "compile_plan",
    "compile_predicate",
    "criterion_findings",
    "parse",
    "plan_of",
    "serialise",
    "unknown_paths",
]
