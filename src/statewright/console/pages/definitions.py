"""Definitions of the process languages: step definitions, flows, playbooks (docs/console.md#pages)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    ApiCall,
    Parameters,
    Reply,
    build_ops_call,
    pick_members,
)
from statewright.console.diagrams.process import NodeState, ProcessGraph, mark_process
from statewright.console.pages.process_graph import GraphView, call_graph, read_graph, view_graph
from statewright.console.process_languages import FLOWS, PLAYBOOKS, STEPS, ProcessLanguage
from statewright.console.request import (
    ConsoleRequest,
    InvalidField,
    Navigation,
    Page,
    Routes,
    Show,
    build_part,
    build_problem,
)
from statewright.console.views.page import Crumb, Picture, Problem, View, build_picture, format_count
from statewright.console.views.records import DefinitionRecord, DefinitionWarning
from statewright.jsonval.values import JsonObject
from statewright.operations.listings import InstanceCount, InstanceCounts, StepCounts
from statewright.operations.work import QueueView

MAX_VERSIONS: Final = 200
ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "TERMINATED", "FAILED"})


class DefinitionRow(Struct, frozen=True, kw_only=True):
    """A line of the list."""

    id: str
    href: str
    name: str
    version: int
    uploaded: str
    under_way: str
    failed: str


class DefinitionsView(Struct, frozen=True, kw_only=True):
    """The list of a language."""

    language: ProcessLanguage
    rows: tuple[DefinitionRow, ...]
    keyword: str
    next: str | None
    first: str | None
    counts_problem: Problem | None


class WarningView(Struct, frozen=True):
    """What looks like a mistake, and where."""

    text: str
    place: str = ""


class DefinitionView(Struct, frozen=True, kw_only=True):
    """The page of a definition, in one version."""

    language: ProcessLanguage
    id: str
    name: str
    description: str
    version: int
    versions: tuple[int, ...]
    uploaded: str
    graph: GraphView
    warnings: tuple[WarningView, ...]
    settings: str
    is_latest: bool

    @property
    def path(self) -> str:
        """That of the page."""
        return self.language.build_path(self.id)

    @property
    def previous(self) -> int | None:
        """The version before, where there is one."""
        return max((each for each in self.versions if each < self.version), default=None)

    @property
    def part(self) -> str:
        """That of its counts."""
        path = self.path.replace("/console/", "/console/part/", 1)
        return f"{path}/counts?version={self.version}"


class InstanceCountsView(Struct, frozen=True, kw_only=True):
    """Instances by status and tokens by step, as they are now."""

    language: ProcessLanguage
    id: str
    statuses: tuple[tuple[str, str], ...]
    """Of each status, how many instances."""
    steps: tuple[tuple[str, str, str], ...]
    """Of each step with tokens: its name, its row and how many."""
    elsewhere: str
    """Tokens at steps that the shown version does not have."""
    unserved: tuple[tuple[str, str], ...]
    """Job types that nobody takes, and how many jobs wait."""
    is_cut: bool
    problems: tuple[tuple[str, Problem], ...]
    picture: Picture


def build_list(language: ProcessLanguage) -> Show:
    """The page that lists the definitions of a language."""

    async def show_definitions(request: ConsoleRequest) -> View:
        size, page = request.query.size(), read_page(request)
        query: Parameters = {"keyword": request.query.get("keyword"), "page": page, "pageSize": size}
        found, counts = await request.call(
            language.call_definitions(query=query),
            build_ops_call("instance-counts", query={"language": language.name}),
        )
        return view_definitions(language, request, found.require(), counts, page, size)

    return show_definitions


def read_page(request: ConsoleRequest) -> int:
    """Which page of a list of ``/v1`` is asked for; those have no cursors. Raises ``InvalidField``."""
    text = request.query.get("page", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise InvalidField("page", "is the number of a page")
    return int(text)


def view_definitions(
    language: ProcessLanguage, request: ConsoleRequest, found: Reply, counts: Reply, page: int, size: int
) -> View:
    """The list from the answers of the API."""
    by_definition = count_by_definition(counts)
    counted = counts.read_if_ok(InstanceCounts)
    is_cut = counted is not None and counted.is_lower_bound
    rows = tuple(_view_row(language, each, by_definition, is_cut=is_cut) for each in found.pick_items(DefinitionRecord))
    more = found.total > (page + 1) * size
    data = DefinitionsView(
        language=language,
        rows=rows,
        keyword=request.query.get("keyword"),
        next=request.query.change(page=str(page + 1), done=None) if more else None,
        first=request.query.change(page=None, done=None) if page else None,
        counts_problem=None if counts.is_ok else build_problem(counts),
    )
    return View(title=language.title, data=data, template="pages/definitions.html")


def count_by_definition(counts: Reply) -> Mapping[str, Mapping[str, int]]:
    """Instances of each definition by status."""
    found: dict[str, dict[str, int]] = {}
    for each in counts.read_items(InstanceCount):
        found.setdefault(each.definition_id, {})[each.status] = each.count
    return found


def _view_row(
    language: ProcessLanguage, item: DefinitionRecord, counts: Mapping[str, Mapping[str, int]], *, is_cut: bool
) -> DefinitionRow:
    definition = language.get_id(item)
    statuses = counts.get(definition, {})
    under_way = sum(count for status, count in statuses.items() if status not in ENDED)
    return DefinitionRow(
        id=definition,
        href=language.build_path(definition),
        name=item.name,
        version=item.version,
        uploaded=item.uploaded_at,
        under_way=format_count(under_way, is_lower_bound=is_cut),
        failed=format_count(statuses.get("FAILED", 0), is_lower_bound=is_cut),
    )


# One definition.


def read_version(request: ConsoleRequest, name: str = "version") -> int:
    """A version that is asked for; 0: the latest. Raises ``InvalidField``."""
    text = request.query.get(name, "0")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InvalidField(name, "is the number of a version")
    return int(text)


def call_definition(language: ProcessLanguage, definition: str, version: int) -> ApiCall:
    """The call for one version; 0 is the latest."""
    return language.call_definitions(definition, *(("versions", version) if version else ()))


def call_versions(language: ProcessLanguage, definition: str) -> ApiCall:
    """The call that tells which versions there are."""
    if language is STEPS:
        return language.call_definitions(query={"keyword": definition, "pageSize": MAX_VERSIONS})
    return language.call_definitions(definition, "versions")


def list_versions(language: ProcessLanguage, definition: str, reply: Reply) -> tuple[int, ...]:
    """The versions of a definition, the latest first."""
    if language is STEPS:
        numbers = [n for each in reply.pick_items(DefinitionRecord) if each.id == definition for n in each.versions]
    else:
        numbers = [each.version for each in reply.pick_items(DefinitionRecord)]
    return tuple(sorted(numbers, reverse=True)[:MAX_VERSIONS])


def build_page(language: ProcessLanguage) -> Show:
    """The page of a definition of a language."""

    async def show_definition(request: ConsoleRequest) -> View:
        definition, version = request.params[language.parameter], read_version(request)
        calls = [call_definition(language, definition, version), call_versions(language, definition)]
        calls += call_graph(language, definition, version)
        calls += [language.call_definitions(definition, "warnings")] if language is STEPS else []
        found, versions, *more = await request.call(*calls)
        found.require()
        graph = await asyncio.to_thread(read_graph, language, found, more[0] if language is FLOWS else None)
        warnings = more[-1] if language is STEPS else found
        return view_definition(language, request, found, versions, graph, warnings)

    return show_definition


def view_definition(
    language: ProcessLanguage,
    request: ConsoleRequest,
    found: Reply,
    versions: Reply,
    graph: ProcessGraph | None,
    warnings: Reply,
) -> View:
    """The page from the answers of the API."""
    told = found.pick(DefinitionRecord)
    definition, version = language.get_id(told), told.version
    numbers = list_versions(language, definition, versions)
    item = next((each for each in versions.pick_items(DefinitionRecord) if each.version == version), told)
    data = DefinitionView(
        language=language,
        id=definition,
        name=told.name,
        description=told.description,
        version=version,
        versions=numbers,
        uploaded=told.uploaded_at or item.uploaded_at,
        graph=view_graph(language, found, graph, request.query),
        warnings=_list_warnings(warnings, version),
        settings=_describe_settings(told.settings or {}),
        is_latest=not numbers or version == numbers[0],
    )
    return View(title=definition, data=data, crumbs=build_crumbs(language), template="pages/definition.html")


def build_crumbs(language: ProcessLanguage, definition: str = "") -> tuple[Crumb, ...]:
    """The way from home."""
    first = Crumb(language.title, language.build_path())
    return (first, Crumb(definition, language.build_path(definition))) if definition else (first,)


def _list_warnings(reply: Reply, version: int) -> tuple[WarningView, ...]:
    """What the API says of the version; of JSON steps it says it of the latest one only."""
    told = reply.pick(DefinitionRecord)
    return list_warnings(told) if reply.is_ok and told.version == version else ()


def list_warnings(told: DefinitionRecord) -> tuple[WarningView, ...]:
    """The warnings of an answer, which are texts or have a place."""
    texts = [WarningView(each) for each in told.warnings if isinstance(each, str)]
    placed = [pick_members(each, DefinitionWarning) for each in told.warnings if isinstance(each, dict)]
    return (*texts, *map(_view_warning, placed))


def _view_warning(item: DefinitionWarning) -> WarningView:
    place = f"line {item.line}, column {item.column}" if item.line else item.path
    return WarningView(item.message or item.reason or item.code, place)


def _describe_settings(settings: JsonObject) -> str:
    return ", ".join(f"{name}: {value}" for name, value in settings.items() if not isinstance(value, dict | list))


# Counts, as a part.


def build_counts(language: ProcessLanguage) -> Show:
    """The part with the counts of a definition."""

    async def show_counts(request: ConsoleRequest) -> View:
        definition, version = request.params[language.parameter], read_version(request)
        asked = {"language": language.name, "definitionId": definition}
        found, statuses, steps, queues, *more = await request.call(
            call_definition(language, definition, version),
            build_ops_call("instance-counts", query=asked),
            build_ops_call("instance-counts", "steps", query=asked),
            build_ops_call("queues", query={"withoutWorker": True, "limit": MAX_VERSIONS}),
            *call_graph(language, definition, version),
        )
        graph = await asyncio.to_thread(read_graph, language, found.require(), more[0] if more else None)
        return View(
            data=view_counts(language, definition, graph, (statuses, steps, queues)),
            template="parts/definition_counts.html",
        )

    return show_counts


def view_counts(
    language: ProcessLanguage, definition: str, graph: ProcessGraph | None, replies: tuple[Reply, Reply, Reply]
) -> InstanceCountsView:
    """The counts from the answers of the API."""
    statuses, steps, queues = replies
    by_step, by_status = steps.read_if_ok(StepCounts), statuses.read_if_ok(InstanceCounts)
    is_cut = any(each.is_lower_bound for each in (by_step, by_status) if each is not None)
    at = {each.step_id: each.count for each in by_step.items} if by_step is not None else {}
    rows = {row.key: row for row in graph.rows} if graph is not None else {}
    known = tuple(
        (rows[key].name, rows[key].ref, format_count(count, is_lower_bound=is_cut))
        for key, count in at.items()
        if key in rows
    )
    others = sum(count for key, count in at.items() if key not in rows)
    waiting = {each.name: each.depth for each in queues.read_items(QueueView)}
    wanted = {row.job_type for row in rows.values() if row.job_type}
    marks = mark_process(graph, {key: NodeState(running=count) for key, count in at.items()}) if graph else None
    picture = build_picture(graph.drawing, marks, label="") if graph else None
    sources = (("instances by status", statuses), ("tokens by step", steps))
    return InstanceCountsView(
        language=language,
        id=definition,
        statuses=tuple(
            (each.status, format_count(each.count, is_lower_bound=is_cut))
            for each in statuses.read_items(InstanceCount)
        ),
        steps=known,
        elsewhere=format_count(others) if others and graph else "",
        unserved=tuple((name, format_count(depth)) for name, depth in waiting.items() if name in wanted),
        is_cut=is_cut,
        problems=tuple((what, build_problem(reply)) for what, reply in sources if not reply.is_ok),
        picture=picture or Picture(id="diagram", label="", plan="{}"),
    )


def _build_routes(language: ProcessLanguage, key: str | None) -> Routes:
    root, name = language.page, language.page
    return (
        Page(
            name=name,
            path=f"/console/{root}",
            show=build_list(language),
            navigation=Navigation("Processes", language.title, key),
        ),
        Page(
            name=f"{language.code}_definition",
            path=f"/console/{root}/{{{language.parameter}}}",
            show=build_page(language),
        ),
        build_part(f"{language.code}_counts", f"/{root}/{{{language.parameter}}}/counts", build_counts(language)),
    )


ROUTES: Final[Routes] = (
    *_build_routes(STEPS, "d"),
    *_build_routes(FLOWS, "f"),
    *_build_routes(PLAYBOOKS, "p"),
)
