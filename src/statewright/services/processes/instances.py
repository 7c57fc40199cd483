"""Instances: start, read, list, history."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from typing import Final, Generic, TypeVar, cast
from uuid import UUID

from msgspec import Struct

from statewright.failures import Failure, InvalidMember, OutcomeUnknown, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonObject, quote
from statewright.net import Moment, format_ulid, uuid_to_ulid
from statewright.processes.changes import ExecutionStatus, NodeExecution
from statewright.processes.language import I, NewInstance, P
from statewright.services.core import Caller
from statewright.services.processes import advancing, definitions
from statewright.services.processes.advancing import parse_instance_id
from statewright.services.processes.documents import (
    PARTS,
    decode_text,
    free_read,
    normalize_page,
    read_instance,
    read_object,
    read_texts,
    refuse_unstorable,
)
from statewright.services.processes.hosting import ProcessHost, PublishedDefinition
from statewright.services.processes.large_values import list_places
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.processes import instances as stored
from statewright.storage.processes.definitions import LATEST, AssumedVersion
from statewright.storage.processes.instances import InstanceFilter, ListedInstance, StoredExecution

MAX_BUSINESS_KEY_CHARS: Final = 512
"""Characters of a business key, which is in an index."""


HISTORY_PORTION: Final = 1000
"""Lines of a history that are read at once, unless their values are large."""


class StartRequest(Struct, frozen=True, kw_only=True):
    """What to start. ``definition_version`` of 0 or less is the latest; an empty ``business_key`` is none."""

    definition_id: str
    definition_version: int = 0
    variables: JsonObject = {}
    business_key: str = ""


async def start(
    host: ProcessHost[P, I],
    caller: Caller,
    request: StartRequest,
    *,
    check: "Callable[[P], Awaitable[None]] | None" = None,
) -> I:
    """Start an instance; it is durable, and as it stands after all the steps that wait for nothing. ``check`` may
    refuse the definition.

    Raises ``ProcessBadRequest`` without a definition id, for a business key
    that is too long and variables that cannot be stored, ``ProcessNotFound`` for an unknown definition and
    ``BusinessKeyInUse``.
    """
    if not request.definition_id:
        raise InvalidMember("definitionId", "definitionId is required")
    await refuse_unstorable(request.variables)
    await refuse_unstorable({"businessKey": request.business_key})
    if len(request.business_key) > MAX_BUSINESS_KEY_CHARS:
        raise InvalidMember(
            "businessKey", f"businessKey must be ≤ {MAX_BUSINESS_KEY_CHARS} characters, got {len(request.business_key)}"
        )
    await advancing.refuse_suspended(host, caller, request.definition_id)
    recalled, failure = None, None
    if request.definition_version <= 0:
        recalled = host.processes.recall_latest(caller.tenant, request.definition_id)
    if recalled is not None:
        try:
            return await _start_version(host, caller, request, recalled, check, is_latest=False)
        except OutcomeUnknown:
            raise
        except Failure as failed:  # nothing was written: it counts if there is no later version
            failure = failed
    published = await definitions.find_version(host, caller.tenant, request.definition_id, request.definition_version)
    if published is None:
        raise ProcessNotFound(f"start: load definition {quote(request.definition_id)}: {definitions.NOT_FOUND}")
    if failure is not None and published is recalled:
        raise failure
    return await _start_version(host, caller, request, published, check, is_latest=True)


async def _start_version(
    host: ProcessHost[P, I],
    caller: Caller,
    request: StartRequest,
    published: PublishedDefinition[P],
    check: "Callable[[P], Awaitable[None]] | None",
    *,
    is_latest: bool,
) -> I:
    """Start an instance of a version. One of which it is not known whether it ``is_latest`` has to be when the instance
    is committed: otherwise raises ``Conflict``.
    """
    if check is not None:
        await check(published.process)
    moment = host.shared.next_moment()
    new = NewInstance(id=format_ulid(moment.first_id), variables=request.variables, business_key=request.business_key)
    inner = Moment(at=moment.at, first_id=moment.first_id + 1)

    def assume_latest(unit: UnitOfWork) -> None:
        unit.parts[LATEST.name] = AssumedVersion(
            tenant=caller.tenant, language=host.language.name, id=request.definition_id, version=published.version
        )

    also_stage = None if is_latest else assume_latest
    return await advancing.create(host, caller, published, new, moment=moment, inner=inner, also_stage=also_stage)


async def get_instance(host: ProcessHost[P, I], caller: Caller, instance_id: str) -> I:
    """An instance as it is now. Raises ``ProcessNotFound`` (``instance "X" not found``)."""
    found = await advancing.find_instance(host, caller.tenant, instance_id)
    if found is None:
        raise build_not_found(host, instance_id)
    return found


T = TypeVar("T")


class StreamedPage(Struct, Generic[T], frozen=True, kw_only=True):
    """A page whose items are read while they are asked for. ``total`` counts all that match."""

    portions: AsyncIterator[tuple[T, ...]]
    is_small: bool
    """Whether all are in the first portion."""
    page: int
    page_size: int
    total: int


async def stream_instances(
    host: ProcessHost[P, I], caller: Caller, matching: InstanceFilter, *, page: int = 0, page_size: int = 0
) -> StreamedPage[I]:
    """Instances that match all filters exactly, the newest first, a few megabytes at a time; an empty filter matches
    all, an unknown status nothing. Each instance is as it is when it is read; one that was removed meanwhile is left
    out.

    Pages are as in ``definitions.list_definitions``.
    """
    asked = normalize_page(page, page_size)
    listed, total = await stored.fetch_abridged_instances(
        host.core.pool, caller.tenant, host.language.name, matching, offset=asked.offset, limit=asked.size
    )
    return StreamedPage(
        portions=_iterate_portions(host, caller, listed),
        is_small=all(one.document is not None and f'"{PARTS}"' not in one.document for one in listed),
        page=asked.number,
        page_size=asked.size,
        total=total,
    )


async def _iterate_portions(
    host: ProcessHost[P, I], caller: Caller, listed: Sequence[ListedInstance]
) -> AsyncGenerator[tuple[I, ...]]:
    documents = [(one.id, one.document) for one in listed if one.document is not None]
    later = [one.id for one in listed if one.document is None]
    del listed
    while documents:
        portion, chars = list[I](), 0
        async for _, one, apart in _iterate_whole(host, caller.tenant, documents):
            portion += [] if one is None else [one]
            chars += apart
            if chars > stored.MAX_LIST_BYTES:
                yield tuple(portion)
                portion, chars = [], 0
        yield tuple(portion)
        documents, count = await stored.fetch_documents(host.core.pool, caller.tenant, later) if later else ([], 0)
        later = later[count:]


async def _iterate_whole(
    host: ProcessHost[P, I],
    tenant: TenantId,
    documents: Sequence[tuple[str, str]],
    max_chars: int = 2**63,
) -> AsyncGenerator[tuple[str, I | None, int]]:
    """Instances from their ids and documents, each behind its id, and how many characters of it are stored apart; None
    for one that has more of these than ``max_chars``, together with those before it.
    """
    read = host.language.instance_from_document

    def read_all() -> list[I | int]:
        """The instances; of those that leave values out how much these are."""
        found = [read_object(text) for _, text in documents]
        return [sum({place.name: place.chars for place in list_places(one)}.values()) or read(one) for one in found]

    for (id_, text), one in zip(documents, await read_texts([text for _, text in documents], read_all), strict=True):
        if not isinstance(one, int):
            yield id_, one, 0
        elif one > max_chars:
            yield id_, None, 0
        else:
            max_chars -= one
            whole, _ = await read_instance(host.core.pool, tenant, EntityId(id_), text, read)
            yield id_, whole, one


class AbridgedInstance(Struct, frozen=True, kw_only=True):
    """What a list knows of an instance without its document. Instants are microseconds of the epoch."""

    id: str
    definition_id: str
    status: str
    business_key: str | None
    started_at: int
    """To the millisecond."""
    completed_at: int | None


class AbridgedPage(Struct, Generic[I], frozen=True, kw_only=True):
    """A page of instances, the newest first, of which those that are too large are abridged."""

    items: tuple["I | AbridgedInstance", ...]
    page: int
    page_size: int
    total: int


async def list_abridged_instances(
    host: ProcessHost[P, I], caller: Caller, matching: InstanceFilter, *, page: int = 0, page_size: int = 0
) -> AbridgedPage[I]:
    """As ``stream_instances``, for languages whose instances may be large: beyond
    ``storage.processes.instances.MAX_LIST_BYTES`` they are abridged.
    """
    asked = normalize_page(page, page_size)
    found, total = await stored.fetch_abridged_instances(
        host.core.pool, caller.tenant, host.language.name, matching, offset=asked.offset, limit=asked.size
    )

    documents = {one.id: one.document for one in found if one.document is not None}
    reading = _iterate_whole(host, caller.tenant, [*documents.items()], stored.MAX_LIST_BYTES)
    whole = {id_: one async for id_, one, _ in reading}
    items = tuple(whole.get(one.id) or _abridge(one) for one in found)
    return AbridgedPage(items=items, page=asked.number, page_size=asked.size, total=total)


def _abridge(listed: ListedInstance) -> AbridgedInstance:
    return AbridgedInstance(
        id=uuid_to_ulid(listed.id),
        definition_id=listed.definition_id,
        status=listed.status,
        business_key=listed.business_key,
        started_at=(UUID(listed.id).int >> 80) * 1000,
        completed_at=listed.finished_at,
    )


async def stream_history(
    host: ProcessHost[P, I], caller: Caller, instance_id: str
) -> AsyncGenerator[tuple[NodeExecution, ...]]:
    """One line per entry into a node, by start time, then id, a few megabytes at a time.

    Raises ``ProcessNotFound``.
    """
    id_, offset, total = parse_instance_id(instance_id, build_not_found(host, instance_id)), 0, 1
    while offset < total:
        lines, total = await stored.fetch_execution_page(
            host.core.pool, caller.tenant, host.language.name, id_, offset=offset, limit=HISTORY_PORTION
        )
        whole = list(takewhile(lambda line: not line.are_values_omitted, lines))
        del lines
        if not whole:
            raise build_not_found(host, instance_id)  # it never was, or was removed meanwhile
        offset += len(whole)
        yield await _to_executions(id_, whole)


class HistoryPage(Struct, frozen=True, kw_only=True):
    """A page of a history. ``total`` counts all its lines."""

    lines: tuple[NodeExecution, ...]
    page: int
    page_size: int
    total: int


async def list_history_page(
    host: ProcessHost[P, I], caller: Caller, instance_id: str, *, page: int = 0, page_size: int = 0
) -> HistoryPage:
    """A page of the history, in its order (``stream_history``). Once the values of a page come to
    ``storage.processes.instances.MAX_PAGE_BYTES``, further lines go without theirs (``are_values_omitted``).

    Pages are as in ``definitions.list_definitions``. Raises ``ProcessNotFound``.
    """
    asked = normalize_page(page, page_size)
    id_ = parse_instance_id(instance_id, build_not_found(host, instance_id))
    lines, total = await stored.fetch_execution_page(
        host.core.pool, caller.tenant, host.language.name, id_, offset=asked.offset, limit=asked.size
    )
    if not total:  # a token may wait to be admitted to the first node
        await get_instance(host, caller, instance_id)
    read = await _to_executions(id_, lines)
    return HistoryPage(lines=read, page=asked.number, page_size=asked.size, total=total)


async def fetch_last_statuses(
    host: ProcessHost[P, I], caller: Caller, instance_id: str
) -> Mapping[str, ExecutionStatus]:
    """What became of the last execution of each node that was ever entered. Raises ``ProcessNotFound``."""
    id_ = parse_instance_id(instance_id, build_not_found(host, instance_id))
    found = await stored.fetch_last_statuses(host.core.pool, caller.tenant, host.language.name, id_)
    return {node: cast("ExecutionStatus", status) for node, status in found}  # as it was written


def build_not_found(host: ProcessHost[P, I], instance_id: str) -> ProcessNotFound:
    """What is said of an unknown instance."""
    return ProcessNotFound(f"{host.noun} {quote(instance_id)} not found")


async def _to_executions(instance: EntityId, lines: Sequence[StoredExecution]) -> tuple[NodeExecution, ...]:
    name = uuid_to_ulid(instance)
    texts = [text for line in lines for text in (line.input, line.output)]
    read = await read_texts(texts, lambda: tuple(_to_execution(name, line) for line in lines))
    for line, execution in zip(lines, read, strict=True):
        free_read(execution.input_snapshot, line.input)
        free_read(execution.output_snapshot, line.output)
    return read


def _to_execution(instance_id: str, line: StoredExecution) -> NodeExecution:
    return NodeExecution(
        id=uuid_to_ulid(line.id),
        instance_id=instance_id,
        node_id=line.node_id,
        node_type=line.node_type,
        attempt_number=line.attempt,
        status=cast("ExecutionStatus", line.status),  # as it was written
        started_at=line.started_at,
        ended_at=line.ended_at,
        input_snapshot=None if line.input is None else decode_text(line.input),
        output_snapshot=None if line.output is None else decode_text(line.output),
        failure_reason=line.failure_reason,
        element=line.element,
        are_values_omitted=line.are_values_omitted,
    )
