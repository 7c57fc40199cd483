"""The one place where a condition, the fields of a model and a sort become a search that can be carried out.

A request is read to a :class:`SearchCondition`, which knows no model. The :class:`SearchCompiler` of a model checks it
and makes a :class:`CompiledSearch` of it: the same question for a database and for memory, filled with the operands of
this request. That searches of the same shape are compiled once (``templates.py``) concerns this module alone.

What declared indexes are to a search: whether its plan may be kept whatever its operands are (docs/adr/0013).

Judging a condition in another process, which compiles it for itself.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions.checks import check, check_form
from statewright.conditions.evaluate import Predicate, compile_plan, compile_predicate
from statewright.conditions.paths import Path
from statewright.conditions.plan import (
    NEVER,
    AllOf,
    Booleans,
    Branch,
    FieldTest,
    Matching,
    Numbers,
    Plan,
    Temporals,
    Texts,
    Visits,
)
from statewright.conditions.planning import Fields, build_plan
from statewright.conditions.sorting import (
    BY_ID,
    Keyset,
    OrderBy,
    SortKey,
    SortOrder,
    SortValues,
    compile_keyset,
    compile_order_by,
    compile_values,
    resolve_sort,
    sort_by_values,
)
from statewright.conditions.sql_terms import HEAD_CHARS, Argument, is_sendable
from statewright.conditions.sql_values import PERIODS, find_successor, format_period, is_moderate
from statewright.conditions.syntax import Condition, Group, MalformedCondition, Order, TextOperator
from statewright.conditions.templates import Operand, SqlCondition, Template, build_template, read_shape
from statewright.conditions.wire import parse
from statewright.entity import EntityMeta
from statewright.evaluation.costs import CHARS_PER_STEP
from statewright.evaluation.regexes import count_compilation_steps
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.numbers import Number
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.lru import LruCache
from statewright.schema.node import DeclaredField


class SentCondition(Struct, frozen=True):
    """A condition, and the fields of the model that it is about."""

    condition: Condition
    declared: Mapping[str, DeclaredField]


def judge_sent(sent: SentCondition, text: str, meta: EntityMeta) -> bool:
    """Whether a condition holds for an entity with a document of this text. Raises ``EvaluationError``."""
    return compile_predicate(sent.condition, sent.declared)(decode_stored(text), meta, Visits())


FieldKind = Literal["TEXT", "NUMBER"]
IndexedField: TypeAlias = tuple[Path, FieldKind]


class IndexUse(Enum):
    """How an index answers a search."""

    VALUE = auto()
    """Every match has a certain value in one of the fields."""
    RUN = auto()
    """The matches are one run of the entries of an index: it reads nothing but matches."""


def list_required_values(plan: Plan) -> Iterator[tuple[str, JsonValue]]:
    """Fields that have the one value that is told in every match, by the names under which a schema lists them."""
    match plan:
        case AllOf(parts=parts):
            for part in parts:
                yield from list_required_values(part)
        case FieldTest(path=path, branches=branches):
            values = {_find_only_value(branch) for branch in branches}
            if len(values) == 1 and (value := values.pop()) is not None:
                yield path.declared_as, value
        case _:
            pass


def _find_only_value(branch: Branch) -> str | Number | bool | None:
    """What equals nothing but itself; None for a branch that several values, or several spellings, satisfy."""
    match branch:
        case (
            Texts(comparisons=((Order.EQUALS, value),))
            | Numbers(comparisons=((Order.EQUALS, value),))
            | Booleans(expected=value)
        ):
            return value
        case Temporals(subtype=subtype, comparisons=((Order.EQUALS, epoch_ms),)) if subtype in PERIODS:
            return format_period(epoch_ms, PERIODS[subtype]) or None
        case _:
            return None


def find_index_use(plan: Plan, fields: Set[IndexedField]) -> IndexUse | None:
    """How indexes on the fields answer the plan; None when another plan could be better for other operands."""
    parts = plan.parts if isinstance(plan, AllOf) else (plan,)
    tests = [part for part in parts if isinstance(part, FieldTest) and len(part.branches) == 1]
    if any(_is_value(test.path, test.branches[0], fields) for test in tests):
        return IndexUse.VALUE
    return IndexUse.RUN if tests and len(tests) == len(parts) and _is_run(tests, fields) else None


def _is_value(path: Path, branch: Branch, fields: Set[IndexedField]) -> bool:
    match branch:
        case Texts(comparisons=((Order.EQUALS, text),)):
            return _is_indexable(text) and (path, "TEXT") in fields
        case Numbers(comparisons=((Order.EQUALS, number),)):
            return is_moderate(number) and (path, "NUMBER") in fields
        case _:
            return False


def _is_run(tests: list[FieldTest], fields: Set[IndexedField]) -> bool:
    path = tests[0].path
    if any(test.path != path for test in tests):
        return False
    branches = [test.branches[0] for test in tests]
    if (path, "TEXT") in fields and all(map(_is_run_of_texts, branches)):
        return True
    return (path, "NUMBER") in fields and all(map(_is_run_of_numbers, branches))


def _is_run_of_texts(branch: Branch) -> bool:
    match branch:
        case Texts(comparisons=comparisons):
            return all(order is not Order.NOT_EQUAL and _is_indexable(text) for order, text in comparisons)
        case Matching(operator=TextOperator.STARTS_WITH, operand=text):
            return bool(text) and _is_indexable(text) and bool(find_successor(text))
        case _:
            return False


def _is_run_of_numbers(branch: Branch) -> bool:
    return isinstance(branch, Numbers) and all(
        order is not Order.NOT_EQUAL and is_moderate(number) for order, number in branch.comparisons
    )


def _is_indexable(text: str) -> bool:
    return len(text) < HEAD_CHARS and is_sendable(text)


MAX_TEMPLATES: Final = 512
"""Shapes that one process remembers."""

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

Item = TypeVar("Item")


class SearchCondition:
    """A condition as a request states it. One that has a shape has no defect of form."""

    __slots__ = ("_raw", "_tree", "is_large", "operands", "shape")

    def __init__(
        self,
        raw: JsonValue,
        *,
        shape: Hashable | None,
        operands: Sequence[Operand],
        tree: Condition | None,
        is_large: bool = False,
    ) -> None:
        self._raw = raw
        self._tree = tree
        self.shape = shape
        self.operands = operands
        self.is_large = is_large
        """Whether checking and compiling it takes longer than others should wait for."""

    @property
    def tree(self) -> Condition:
        """The condition as a syntax tree, parsed when it is asked for."""
        if self._tree is None:
            self._tree = parse(self._raw)
        return self._tree

    def check_form(self) -> None:
        """What can be told without the model; raises as :func:`~statewright.conditions.checks.check_form`."""
        if self.shape is None:
            check_form(self.tree)


def read_search_condition(raw: JsonValue) -> SearchCondition:
    """The condition that a JSON value describes. Raises ``MalformedCondition``."""
    is_large = is_large_condition(raw)
    operands: list[Operand] = []
    shape = None if is_large else read_shape(raw, operands)
    tree = parse(raw) if shape is None else None
    return SearchCondition(raw, shape=shape, operands=operands, tree=tree, is_large=is_large)


MAX_PARTS: Final = 6000
"""Groups and comparisons of one condition (docs/reference/conditions.md#limits)."""

MAX_VALUES: Final = 50_000
"""Operands and members of one condition, all together."""

MAX_TURN_VALUES: Final = 500
"""Operands and members of a condition that is compiled within a turn of the event loop, in some 10 ms."""

MAX_STEPS: Final = 1_000_000
"""What the patterns and texts of one condition may take to compile, in steps (``statewright.evaluation.costs``)."""

MAX_TURN_STEPS: Final = 5_000
"""That of a condition that is compiled within a turn."""

_PATTERNS: Final = frozenset((TextOperator.LIKE.value, TextOperator.MATCHES_PATTERN.value))


def is_large_condition(raw: JsonValue) -> bool:
    """Whether checking and compiling a condition takes longer than others should wait for. Raises
    ``MalformedCondition`` for one that takes too long in any case.
    """
    parts, values, chars, steps, level = 0, 0, 0, 0, [raw]
    while level:
        inner = list[JsonValue]()
        for value in level:
            if isinstance(value, dict):
                parts += 1
                values += len(value)
                for member in value.values():
                    if isinstance(member, str):
                        chars += len(member)
                        steps += _count_pattern_steps(value) if member in _PATTERNS else 0
                    elif isinstance(member, list | dict):
                        inner.append(member)
            elif isinstance(value, list):
                values += len(value)
                inner += [item for item in value if isinstance(item, list | dict)]
                chars += sum([len(item) for item in value if isinstance(item, str)])
        if parts > MAX_PARTS:
            raise MalformedCondition(f"a condition has at most {MAX_PARTS} groups and comparisons")
        if values > MAX_VALUES:
            raise MalformedCondition(f"a condition has at most {MAX_VALUES} operands and members")
        steps, chars = steps + chars // CHARS_PER_STEP, chars % CHARS_PER_STEP
        if steps > MAX_STEPS:
            raise MalformedCondition("the patterns of the condition take too long to compile")
        level = inner
    return values > MAX_TURN_VALUES or steps > MAX_TURN_STEPS


def _count_pattern_steps(leaf: JsonObject) -> int:
    """Of a comparison with a pattern, wherever it stands."""
    return sum([count_compilation_steps(member) for member in leaf.values() if isinstance(member, str)])


def count_compilation(raw: JsonValue) -> int:
    """What compiling the patterns of a criterion takes, in steps, however deep they are nested."""
    steps, pending = 0, [raw]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
            if any(isinstance(member, str) and member in _PATTERNS for member in value.values()):
                steps += _count_pattern_steps(value)
        elif isinstance(value, list):
            pending += value
    return steps


def is_large_criterion(raw: JsonValue) -> bool:
    """The same of a criterion, which is stored whatever it is."""
    try:
        return is_large_condition(raw)
    except MalformedCondition:
        return True


class _Precompiled(Struct, frozen=True, eq=False):
    """What takes long to compile: the condition in SQL with parameters from ``first`` on, and in memory."""

    first: int
    sql: SqlCondition
    predicate: Predicate


class CompiledSearch(Struct, frozen=True, eq=False):
    """What is wanted of the entities of a model, and in which order."""

    _template: Template
    _operands: Sequence[Operand]
    order: SortOrder
    _condition: SearchCondition
    _declared: Fields
    _precompiled: _Precompiled | None = None

    @property
    def shape(self) -> Hashable | None:
        """Equal for searches of a model that differ in the arguments of their SQL only; None when there are none."""
        return self._template if self._template.operands else None

    def compile_sql(self, *, first: int = 1, names: Mapping[str, str] = NO_NAMES) -> SqlCondition:
        """The condition in SQL, for all searches of this shape. Its parameters begin at ``$first``; ``names`` says what
        stands for a member name instead of a parameter.
        """
        done = self._precompiled
        if done is not None and done.first == first and not names:
            return done.sql
        return self._template.compile(first=first, names=names)

    def fill(self, condition: SqlCondition) -> list[Argument]:
        """The arguments of the SQL for this search."""
        return condition.arguments.fill(self._operands)

    def compile_order_by(self, *, first: int = 1, names: Mapping[str, str] = NO_NAMES) -> OrderBy:
        """The order in SQL, with parameters and names as in ``compile_sql``."""
        return compile_order_by(self.order, first=first, names=names)

    def compile_keyset(self, *, first: int = 1) -> Keyset:
        """What tells in SQL which rows come behind one in this order, with parameters as in ``compile_sql``."""
        return compile_keyset(self.order, first=first)

    def find_index_use(self, fields: Set[IndexedField]) -> IndexUse | None:
        """How indexes on the fields answer any search of this shape."""
        return find_index_use(self._template.plan, fields)

    @property
    def required_fields(self) -> frozenset[str]:
        """Those of :meth:`compute_required_values`."""
        return frozenset(field for field, _ in list_required_values(self._template.plan))

    def compute_required_values(self) -> dict[str, JsonValue]:
        """The fields that a match has one certain value in: text, number or boolean, whatever is declared."""
        return dict(list_required_values(self._build_plan()))

    def ignore_order(self) -> "CompiledSearch":
        """The same by id."""
        return replace(self, order=BY_ID) if self.order else self

    def compile_predicate(self) -> Predicate:
        """The condition in memory, which has the last word where SQL is not exact."""
        if self._precompiled is not None:
            return self._precompiled.predicate
        return compile_plan(self._build_plan())

    def _build_plan(self) -> Plan:
        return build_plan(self._condition.tree, self._declared) if self._template.operands else self._template.plan

    def send(self) -> SentCondition:
        """The condition for another process."""
        return SentCondition(self._condition.tree, self._declared)

    def precompile(self, *, first: int) -> "CompiledSearch":
        """The same with everything compiled that it may be asked for, in SQL with parameters from ``$first`` on: for a
        thread, when the condition is large.
        """
        sql = self.compile_sql(first=first)
        return replace(self, _precompiled=_Precompiled(first, sql, self.compile_predicate()))

    @property
    def is_precompiled(self) -> bool:
        return self._precompiled is not None

    def compile_values(self) -> Callable[[JsonValue, EntityMeta], SortValues]:
        """A function that gives what ``sort`` needs of an entity."""
        return compile_values(self.order)

    def sort(self, items: Iterable[tuple[Item, SortValues]]) -> list[Item]:
        """The items in order."""
        return sort_by_values(self.order, items)


_NO_TEMPLATE: Final = Template(NEVER)
"""Stands for a shape that can have none."""


class TemplateCache(LruCache[tuple["SearchCompiler", Hashable], Template]):
    """Templates of the models of a process."""

    def __init__(self) -> None:
        super().__init__(MAX_TEMPLATES)


class SearchCompiler:
    """Compiles the searches of one model, for the fields that it declares, which never change."""

    __slots__ = ("_declared", "_templates")

    def __init__(self, declared: Fields, templates: TemplateCache) -> None:
        self._declared = declared
        self._templates = templates

    def compile(self, condition: SearchCondition, sort: Iterable[SortKey] = ()) -> CompiledSearch:
        """The search. Raises the failures of :func:`~statewright.conditions.checks.check` and of ``resolve_sort``."""
        template = self._find_template(condition)
        if template is _NO_TEMPLATE:
            check(condition.tree, self._declared)
            return compile_search(condition.tree, self._declared, sort)
        order = resolve_sort(sort, self._declared) if sort else BY_ID
        return CompiledSearch(template, condition.operands, order, condition, self._declared)

    def _find_template(self, condition: SearchCondition) -> Template:
        """What all conditions of this shape have in common for what the model declares."""
        if condition.shape is None:
            return _NO_TEMPLATE
        key = self, condition.shape
        template = self._templates.get(key)
        if template is None:
            template = build_template(condition.tree, self._declared) or _NO_TEMPLATE
            self._templates.put(key, template)
        return template


def compile_search(condition: Condition, declared: Fields, sort: Iterable[SortKey] = ()) -> CompiledSearch:
    """A search without checks of its condition, which were made before, or are others."""
    return CompiledSearch(
        Template(build_plan(condition, declared)),
        (),
        resolve_sort(sort, declared),
        SearchCondition(None, shape=None, operands=(), tree=condition),
        declared,
    )


EVERYTHING: Final = compile_search(Group(operator="AND", conditions=()), {})
"""All entities of a model, by id."""
