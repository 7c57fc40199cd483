"""The condition language of searches, criteria, conditional deletes and statistics (docs/reference/search.md#search).

A condition is parsed to a syntax tree, checked for its consumer and turned into a typed plan. The plan is compiled to a
predicate, and for a search (:class:`CompiledSearch`) to SQL as well. Pure: no input, no output, no clock.
"""

from statewright.conditions.checks import (
    CriterionDoubt,
    KnownFields,
    check_destructive,
    check_statistics,
    find_criterion_defects,
    find_criterion_doubts,
)
from statewright.conditions.evaluate import Predicate, compile_predicate
from statewright.conditions.plan import EvaluationError, TooManyVisits, Visits
from statewright.conditions.search import (
    EVERYTHING,
    NO_NAMES,
    CompiledSearch,
    FieldKind,
    IndexedField,
    IndexUse,
    SearchCompiler,
    SearchCondition,
    TemplateCache,
    compile_search,
    count_compilation,
    is_large_condition,
    is_large_criterion,
    read_search_condition,
)
from statewright.conditions.sorting import SortKey, SortValues, check_keys, parse_sort
from statewright.conditions.syntax import (
    Array,
    Condition,
    Function,
    Group,
    Lifecycle,
    MalformedCondition,
    Simple,
    replace_synonyms,
)
from statewright.conditions.templates import SqlCondition
from statewright.conditions.wire import parse, serialise

__all__ = [
    "EVERYTHING",
    "NO_NAMES",
    "Array",
    "CompiledSearch",
    "Condition",
    "CriterionDoubt",
    "EvaluationError",
    "FieldKind",
    "Function",
    "Group",
    "IndexUse",
    "IndexedField",
    "KnownFields",
    "Lifecycle",
    "MalformedCondition",
    "Predicate",
    "SearchCompiler",
    "SearchCondition",
    "Simple",
    "SortKey",
    "SortValues",
    "SqlCondition",
    "TemplateCache",
    "TooManyVisits",
    "Visits",
    "check_destructive",
    "check_keys",
    "check_statistics",
    "compile_predicate",
    "compile_search",
    "count_compilation",
    "find_criterion_defects",
    "find_criterion_doubts",
    "is_large_condition",
    "is_large_criterion",
    "parse",
    "parse_sort",
    "read_search_condition",
    "replace_synonyms",
    "serialise",
]
