"""Use cases of searching: directly, within a joined transaction, and how a search would be carried out."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from statewright.conditions import (
    Condition,
    MalformedCondition,
    Plan,
    check_against,
    check_form,
    compile_plan,
    parse,
    plan_of,
    unknown_paths,
)
from statewright.conditions.sorting import SortKey, SortOrder, resolve_sort
from statewright.conditions.templates import Filled, Shaped, filled, shaped
from statewright.entity import Entity, EntityView, ModelKey
from statewright.failures import BadRequest, ModelNotFound, SearchResultLimit
from statewright.identity import TenantId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue
from statewright.schema.flatten import Declared
from statewright.services.definitions import Definition
from statewright.services.runtime import Caller, Runtime
from statewright.storage import models
from statewright.storage.search import Explanation, Match, Query, in_order, meta_of

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000


class Search(Struct, frozen=True, kw_only=True):
    """What is looked for in a model, as asked; ``instant`` is in epoch microseconds, None = now."""

    key: ModelKey
    question: Condition | Shaped
    sort: tuple[SortKey, ...] = ()
    instant: int | None = None

    @property
    def condition(self) -> Condition:
        """The condition as a tree."""
        return self.question.condition if isinstance(self.question, Shaped) else self.question


class Prepared(Struct, frozen=True, kw_only=True):
    """A search that was checked against its model."""

    definition: Definition
    wanted: Plan | Filled
    order: SortOrder
    instant: int | None

    def query(self, *, without: Sequence[Entity] = ()) -> Query:
        """What the database is asked for."""
        stored = self.definition.stored
        return Query(
            tenant=stored.tenant,
            model=stored.id,
            wanted=self.wanted,
            instant=self.instant,
            without=tuple(entity.id for entity in without),
        )


def read_condition(body: bytes) -> Condition:
    """The condition of a request body. Raises ``BadRequest`` (spec/search.md §9.1 step 3)."""
    question = read_question(body)
    return question.condition if isinstance(question, Shaped) else question


def read_question(body: bytes) -> Condition | Shaped:
    """The same, as a search would have it."""
    try:
        return question_of(decode(body))
    except (MalformedJson, MalformedCondition) as malformed:
        raise BadRequest(f"invalid condition: {malformed}") from malformed


def question_of(value: JsonValue) -> Condition | Shaped:
    """The condition that a JSON value describes. Raises ``MalformedCondition``."""
    return shaped(value) or parse(value)


def check_limit(limit: int) -> int:
    """The limit of a direct search. Raises ``BadRequest``."""
    if limit < 1:
        raise BadRequest("invalid limit: must be at least 1")
    if limit > MAX_LIMIT:
        raise BadRequest(f"limit exceeds maximum {MAX_LIMIT}")
    return limit


async def prepare(runtime: Runtime, tenant: TenantId, search: Search) -> Prepared:
    """Checks in the order of spec/search.md §9.1, steps 6 to 11; raises their failures."""
    question = search.question
    if not isinstance(question, Shaped):
        check_form(question)
    definition = await _definition(runtime, tenant, search)
    declared = definition.model.declared
    return Prepared(
        definition=definition,
        wanted=wanted(question, declared),
        order=resolve_sort(search.sort, declared),
        instant=search.instant,
    )


def wanted(question: Condition | Shaped, declared: Mapping[str, Declared]) -> Plan | Filled:
    """What has to hold of an entity. Raises the failures of ``check_against``; ``declared`` must never change."""
    if isinstance(question, Shaped):
        by_template = filled(question, declared)
        if by_template is not None:
            return by_template
        question = question.condition
    check_against(question, declared)
    return plan_of(question, declared)


async def direct(
    runtime: Runtime, caller: Caller, search: Search, *, limit: int = DEFAULT_LIMIT, tracking: bool = False
) -> list[EntityView]:
    """All matching entities in order, within the transaction that the caller joins, if any.

    Raises the failures of ``prepare`` and of ``SearchDatabase.direct``. With ``tracking`` the joined transaction fails
    when somebody else changes a returned entity first (spec/search.md §13).
    """
    prepared = await prepare(runtime, caller.tenant, search)
    if caller.transaction is None or search.instant is not None:  # the past is what was committed then
        return await runtime.search.direct(prepared.query(), limit=limit, order=prepared.order)
    return await _joined(runtime, caller, prepared, limit=limit, tracking=tracking)


async def explain(
    runtime: Runtime, caller: Caller, search: Search, *, limit: int = DEFAULT_LIMIT, analyze: bool = False
) -> Explanation:
    """How a direct search would be carried out; with ``analyze``, how it was. Raises as ``direct`` does, but never for
    the number of matches.
    """
    prepared = await prepare(runtime, caller.tenant, search)
    return await runtime.search.explain(prepared.query(), limit=limit, order=prepared.order, analyze=analyze)


async def _joined(
    runtime: Runtime, caller: Caller, prepared: Prepared, *, limit: int, tracking: bool
) -> list[EntityView]:
    """What is committed, and what the transaction has made of it."""
    async with runtime.unit(caller) as unit:
        staged = unit.staged.values()
        own = _matches([write.entity for write in staged if not write.deletes], prepared)
        query = prepared.query(without=[write.entity for write in staged])
        room = limit - len(own)
        try:
            committed = await runtime.search.direct(query, limit=max(room, 0))
        except SearchResultLimit:
            raise SearchResultLimit(limit) from None
        if room < 0:
            raise SearchResultLimit(limit)
        if tracking:
            for entity in committed:
                unit.expect(entity.id, entity.transaction_id)
            await unit.commit()
    return in_order([*own, *(Match(entity) for entity in committed)], prepared.order)


def _matches(entities: Sequence[Entity], prepared: Prepared) -> list[Match[EntityView]]:
    holds = compile_plan(prepared.query().plan)
    model = prepared.definition.stored.id
    decoded = [Match[EntityView](entity, decode(entity.document)) for entity in entities if entity.model == model]
    return [match for match in decoded if holds(match.document, meta_of(match.entity))]


async def _definition(runtime: Runtime, tenant: TenantId, search: Search) -> Definition:
    """The definition of the model; as it is now when the cached one lacks a path, which another process may have added.

    Raises ``ModelNotFound``.
    """
    definition = await runtime.definitions.find(tenant, search.key)
    if definition is not None and _lacks_a_path(definition, search.question):
        newest = await models.definitions(runtime.pool, tenant, definition.stored.id)
        if newest is None or newest.model.revision != definition.stored.revision:
            runtime.definitions.forget(tenant, definition.stored.id)
            definition = await runtime.definitions.find(tenant, search.key)
    if definition is None:
        raise ModelNotFound(f"model {search.key.name}/{search.key.version} not found")
    return definition


def _lacks_a_path(definition: Definition, question: Condition | Shaped) -> bool:
    declared = definition.model.declared
    if isinstance(question, Shaped):
        if filled(question, declared) is not None:
            return False
        question = question.condition
    return bool(unknown_paths(question, declared))
