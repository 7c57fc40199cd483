"""The one place where a condition, the fields of a model and a sort become a search that can be carried out.

A request is read to a :class:`SearchCondition`, which knows no model. The :class:`SearchCompiler` of a model checks it
and makes a :class:`CompiledSearch` of it: the same question for a database and for memory, filled with the operands of
this request. That searches of the same shape are compiled once (``templates.py``) concerns this module alone.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions.checks import check, check_form
from statewright.conditions.evaluate import Predicate, compile_plan
from statewright.conditions.index_use import IndexedField, IndexUse, find_index_use
from statewright.conditions.plan import NEVER
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
from statewright.conditions.sql_terms import Argument
from statewright.conditions.syntax import Condition, Group, MalformedCondition
from statewright.conditions.templates import Operand, SqlCondition, Template, build_template, read_shape
from statewright.conditions.wire import parse
from statewright.entity import EntityMeta
from statewright.jsonval.values import JsonValue
from statewright.lru import LruCache

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


def is_large_condition(raw: JsonValue) -> bool:
    """Whether checking and compiling a condition takes longer than others should wait for. Raises
    ``MalformedCondition`` for one that takes too long in any case.
    """
    parts, values, level = 0, 0, [raw]
    while level:
        inner = list[JsonValue]()
        for value in level:
            if isinstance(value, dict):
                parts += 1
                values += len(value)
                inner += [member for member in value.values() if isinstance(member, list | dict)]
            elif isinstance(value, list):
                values += len(value)
                inner += [item for item in value if isinstance(item, list | dict)]
        if parts > MAX_PARTS:
            raise MalformedCondition(f"a condition has at most {MAX_PARTS} groups and comparisons")
        if values > MAX_VALUES:
            raise MalformedCondition(f"a condition has at most {MAX_VALUES} operands and members")
        level = inner
    return values > MAX_TURN_VALUES


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

    def ignore_order(self) -> "CompiledSearch":
        """The same by id."""
        return replace(self, order=BY_ID) if self.order else self

    def compile_predicate(self) -> Predicate:
        """The condition in memory, which has the last word where SQL is not exact."""
        if self._precompiled is not None:
            return self._precompiled.predicate
        if self._template.operands:
            return compile_plan(build_plan(self._condition.tree, self._declared))
        return compile_plan(self._template.plan)

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
