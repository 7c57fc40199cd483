"""Definitions of the process languages: step definitions, flows, playbooks; each as a picture, a table and source text,
and two versions of one compared (docs/console.md#pages).
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Parameters, Reply, build_ops_call, pick_members
from statewright.console.diagrams.diff import Sentence
from statewright.console.diagrams.drawing import Mark, Marks, choose_tier
from statewright.console.diagrams.process import (
    NodeRow,
    NodeState,
    ProcessGraph,
    mark_process,
)
from statewright.console.pages.listing import Slice, list_pages, slice_rows
from statewright.console.process_languages import LANGUAGES, ProcessLanguage
from statewright.console.request import Navigation, Page, PageContext, Query, Routes, Show, build_part, build_problem
from statewright.console.views.entities import fits_page, write_text
from statewright.console.views.page import (
    Crumb,
    DiffLine,
    Line,
    Picture,
    Problem,
    View,
    build_picture,
    compare_lines,
    format_count,
    number_lines,
)
from statewright.console.views.records import DefinitionRecord, DefinitionWarning
from statewright.operations.listings import InstanceCount, InstanceCounts, StepCounts
from statewright.operations.queues import QueueView

MAX_VERSIONS: Final = 200
MAX_COMPARED_CHARS: Final = 256 * 1024
MAX_CHANGES: Final = 500
ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "TERMINATED", "FAILED"})
EMPTY_PICTURE: Final = Picture(id="diagram", label="", plan="{}")


class DefinitionRow(Struct, frozen=True, kw_only=True):
    """A line of the list."""

    record: DefinitionRecord
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


def build_list(language: ProcessLanguage) -> Show:
    """The page that lists the definitions of a language."""

    async def show_definitions(request: PageContext) -> View:
        query = request.query
        asked: Parameters = {"keyword": query.get("keyword"), "page": query.page(), "pageSize": query.size()}
        found, counts = await request.call(
            language.call_definitions(query=asked), build_ops_call("instance-counts", query={"language": language.name})
        )
        following, first = list_pages(query, found.require().total)
        counted = counts.read_if_ok(InstanceCounts)
        is_cut = counted is not None and counted.is_lower_bound
        by_definition: dict[str, list[InstanceCount]] = {}
        for each in counts.read_items(InstanceCount):
            by_definition.setdefault(each.definition_id, []).append(each)
        data = DefinitionsView(
            language=language,
            rows=tuple(
                _view_row(each, by_definition.get(each.key, []), is_cut=is_cut)
                for each in found.pick_items(DefinitionRecord)
            ),
            keyword=query.get("keyword"),
            next=following,
            first=first,
            counts_problem=None if counts.is_ok else build_problem(counts),
        )
        return View(title=language.title, data=data, template="pages/definitions.html")

    return show_definitions


def _view_row(record: DefinitionRecord, counts: Sequence[InstanceCount], *, is_cut: bool) -> DefinitionRow:
    under_way = sum(each.count for each in counts if each.status not in ENDED)
    failed = sum(each.count for each in counts if each.status == "FAILED")
    return DefinitionRow(
        record=record,
        under_way=format_count(under_way, is_lower_bound=is_cut),
        failed=format_count(failed, is_lower_bound=is_cut),
    )


# The graph of a definition.


class GraphView(Struct, frozen=True, kw_only=True):
    """What is shown of a graph. ``picture``: none where the definition is too large to be read here."""

    picture: Picture | None
    table: Slice[NodeRow]
    focus: str
    lines: tuple[Line, ...]
    text: str | None
    """The definition as text; none where it is too long for a page."""
    noun: str


async def call_with_graph(
    request: PageContext, language: ProcessLanguage, definition: str, version: int, *calls: ApiCall
) -> tuple[Reply, ProcessGraph | None, tuple[Reply, ...]]:
    """A definition in one version, 0 for the latest; its graph, none where it cannot be drawn; and the replies to other
    calls, made at the same time.
    """
    path = (definition, *(("versions", version) if version else ()))
    drawn = language.call_definitions(*path, "diagram", query={"format": "graph"})
    diagram = [drawn] if language.is_compiled else []
    found, *replies = await request.call(language.call_definitions(*path), *calls, *diagram)
    graph = await asyncio.to_thread(read_graph, language, found, replies[-1] if diagram else None)
    return found, graph, tuple(replies[: len(calls)])


def read_graph(language: ProcessLanguage, definition: Reply, diagram: Reply | None) -> ProcessGraph | None:
    """The graph from the answers of the API; None where they have none that can be drawn."""
    read = diagram if language.is_compiled else definition
    if not definition.is_ok or read is None or not read.is_ok:
        return None
    return language.read_graph(read.document)


def get_source(language: ProcessLanguage, definition: Reply) -> str:
    """The text of a definition: as it was written, or as JSON."""
    return write_text(definition.value) if language.is_json else definition.pick(DefinitionRecord).source


def view_graph(language: ProcessLanguage, definition: Reply, graph: ProcessGraph | None, query: Query) -> GraphView:
    """The view of a graph; ``focus`` of the query is the key of a node, ``from`` the first row."""
    text = get_source(language, definition) if fits_page(definition.value) else None
    rows, focus = graph.rows if graph is not None else (), query.get("focus")
    refs: dict[int, list[str]] = {}
    for row in rows:
        for number in range(row.lines[0], row.lines[1] + 1) if row.lines else ():
            refs.setdefault(number, []).append(row.ref)
    return GraphView(
        picture=draw_graph(language, graph, focus) if graph is not None else None,
        table=slice_rows(query, rows, "nodes"),
        focus=focus if graph is not None and focus in graph.numbers else "",
        lines=number_lines(text, refs) if text is not None and not language.is_json else (),
        text=text,
        noun=language.nouns.nodes,
    )


def draw_graph(language: ProcessLanguage, graph: ProcessGraph, focus: str = "") -> Picture:
    """The picture; of a large one what is near a node."""
    number = graph.numbers.get(focus)
    is_near = number is not None and choose_tier(graph.drawing) == 3
    label = f"{language.picture} of the {language.code}"
    return build_picture(graph.drawing, label=label, focus=number, is_neighbourhood=is_near)


# One definition.


class DefinitionView(Struct, frozen=True, kw_only=True):
    """The page of a definition, in one version."""

    language: ProcessLanguage
    told: DefinitionRecord
    versions: tuple[int, ...]
    uploaded: str
    graph: GraphView
    warnings: tuple[DefinitionWarning, ...]

    @property
    def path(self) -> str:
        """That of the page."""
        return self.language.build_path(self.told.key)

    @property
    def settings(self) -> str:
        """Those that are one value each."""
        told = (self.told.settings or {}).items()
        return ", ".join(f"{name}: {value}" for name, value in told if not isinstance(value, dict | list))

    @property
    def previous(self) -> int | None:
        """The version before, where there is one."""
        return max((each for each in self.versions if each < self.told.version), default=None)

    @property
    def part(self) -> str:
        """That of its counts."""
        path = self.path.replace("/console/", "/console/part/", 1)
        return f"{path}/counts?version={self.told.version}"


def build_page(language: ProcessLanguage) -> Show:
    """The page of a definition of a language."""

    async def show_definition(request: PageContext) -> View:
        definition, version = request.params[language.parameter], request.query.get_number("version")
        calls = [
            language.call_definitions(query={"keyword": definition, "pageSize": MAX_VERSIONS})
            if language.has_warnings
            else language.call_definitions(definition, "versions")
        ]
        calls += [language.call_definitions(definition, "warnings")] if language.has_warnings else []
        found, graph, replies = await call_with_graph(request, language, definition, version, *calls)
        told = found.require().pick(DefinitionRecord)
        listed, warned = replies[0].pick_items(DefinitionRecord), replies[1] if language.has_warnings else found
        item = next((each for each in listed if each.version == told.version), told)
        data = DefinitionView(
            language=language,
            told=told,
            versions=list_versions(language, told.key, listed),
            uploaded=told.uploaded_at or item.uploaded_at,
            graph=view_graph(language, found, graph, request.query),
            warnings=_list_warnings(warned, told.version),
        )
        return View(title=told.key, data=data, crumbs=build_crumbs(language), template="pages/definition.html")

    return show_definition


def list_versions(language: ProcessLanguage, definition: str, listed: Sequence[DefinitionRecord]) -> tuple[int, ...]:
    """The versions of a definition, the latest first."""
    if language.has_warnings:
        numbers = [number for each in listed if each.id == definition for number in each.versions]
    else:
        numbers = [each.version for each in listed]
    return tuple(sorted(numbers, reverse=True)[:MAX_VERSIONS])


def build_crumbs(language: ProcessLanguage, definition: str = "") -> tuple[Crumb, ...]:
    """The way from home."""
    first = Crumb(language.title, language.build_path())
    return (first, Crumb(definition, language.build_path(definition))) if definition else (first,)


def _list_warnings(reply: Reply, version: int) -> tuple[DefinitionWarning, ...]:
    """What the API says of the version; of JSON steps it says it of the latest one only."""
    told = reply.pick(DefinitionRecord)
    return list_warnings(told) if reply.is_ok and told.version == version else ()


def list_warnings(told: DefinitionRecord) -> tuple[DefinitionWarning, ...]:
    """The warnings of an answer, which are texts or have a place."""
    texts = [DefinitionWarning(message=each) for each in told.warnings if isinstance(each, str)]
    return (*texts, *(pick_members(each, DefinitionWarning) for each in told.warnings if isinstance(each, dict)))


# Counts, as a part.


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
    problems: tuple[tuple[str, Problem], ...]
    picture: Picture


def build_counts(language: ProcessLanguage) -> Show:
    """The part with the counts of a definition."""

    async def show_counts(request: PageContext) -> View:
        definition, version = request.params[language.parameter], request.query.get_number("version")
        asked = {"language": language.name, "definitionId": definition}
        found, graph, replies = await call_with_graph(
            request,
            language,
            definition,
            version,
            build_ops_call("instance-counts", query=asked),
            build_ops_call("instance-counts", "steps", query=asked),
            build_ops_call("queues", query={"withoutWorker": True, "limit": MAX_VERSIONS}),
        )
        found.require()
        return View(data=view_counts(language, definition, graph, replies), template="parts/definition_counts.html")

    return show_counts


def view_counts(
    language: ProcessLanguage, definition: str, graph: ProcessGraph | None, replies: Sequence[Reply]
) -> InstanceCountsView:
    """The counts from the answers of the API."""
    statuses, steps, queues = replies
    by_step, by_status = steps.read_if_ok(StepCounts), statuses.read_if_ok(InstanceCounts)
    is_cut = any(each.is_lower_bound for each in (by_step, by_status) if each is not None)
    at = {each.step_id: each.count for each in by_step.items} if by_step is not None else {}
    rows = {row.key: row for row in graph.rows} if graph is not None else {}
    others = sum(count for key, count in at.items() if key not in rows)
    wanted = {row.job_type for row in rows.values() if row.job_type}
    marks = mark_process(graph, {key: NodeState(running=count) for key, count in at.items()}) if graph else None
    sources = (("instances by status", statuses), ("tokens by step", steps))
    return InstanceCountsView(
        language=language,
        id=definition,
        statuses=tuple(
            (each.status, format_count(each.count, is_lower_bound=is_cut))
            for each in statuses.read_items(InstanceCount)
        ),
        steps=tuple(
            (rows[key].name, rows[key].ref, format_count(count, is_lower_bound=is_cut))
            for key, count in at.items()
            if key in rows
        ),
        elsewhere=format_count(others) if others and graph else "",
        unserved=tuple(
            (each.name, format_count(each.depth)) for each in queues.read_items(QueueView) if each.name in wanted
        ),
        problems=tuple((what, build_problem(reply)) for what, reply in sources if not reply.is_ok),
        picture=build_picture(graph.drawing, marks, label="") if graph else EMPTY_PICTURE,
    )


# Two versions.


class DefinitionDiffView(Struct, frozen=True, kw_only=True):
    """What differs. ``lines``: none where the texts are too long to be compared."""

    language: ProcessLanguage
    id: str
    old: int
    new: int
    changes: tuple[Sentence, ...]
    picture: Picture | None
    lines: tuple[DiffLine, ...] | None

    @property
    def path(self) -> str:
        """That of the definition."""
        return self.language.build_path(self.id)


def build_diff(language: ProcessLanguage) -> Show:
    """The page that compares two versions of a definition of a language."""

    async def show_diff(request: PageContext) -> View:
        definition = request.params[language.parameter]
        versions = [request.query.get_number(name) for name in ("from", "to")]
        pairs = await asyncio.gather(*(call_with_graph(request, language, definition, version) for version in versions))
        return await asyncio.to_thread(view_diff, language, definition, *((reply, graph) for reply, graph, _ in pairs))

    return show_diff


def view_diff(
    language: ProcessLanguage,
    definition: str,
    old: tuple[Reply, ProcessGraph | None],
    new: tuple[Reply, ProcessGraph | None],
) -> View:
    """The page from the answers of the API: the definition with its graph, of either version."""
    texts = [get_source(language, reply.require()) for reply, _ in (old, new)]
    data = DefinitionDiffView(
        language=language,
        id=definition,
        old=old[0].pick(DefinitionRecord).version,
        new=new[0].pick(DefinitionRecord).version,
        changes=tuple(compare_graphs(language, old[1], new[1])[:MAX_CHANGES]),
        picture=draw_changes(old[1], new[1]) if new[1] is not None else None,
        lines=compare_texts(texts[0], texts[1]),
    )
    return View(
        title=f"{definition}: two versions",
        data=data,
        crumbs=build_crumbs(language, definition),
        template="pages/definition_diff.html",
    )


def compare_texts(old: str, new: str) -> tuple[DiffLine, ...] | None:
    """The lines that differ; None where the texts are too long to be compared."""
    return compare_lines(old, new) if max(len(old), len(new)) <= MAX_COMPARED_CHARS else None


def compare_graphs(
    language: ProcessLanguage, before: ProcessGraph | None, after: ProcessGraph | None
) -> list[Sentence]:
    """Nodes that came, went or changed, in sentences."""
    old, new = _index(before), _index(after)
    noun = language.nouns.nodes.removesuffix("s").capitalize()
    changes = [
        Sentence(change="removed", text=f"{noun} {row.name} is gone.") for key, row in old.items() if key not in new
    ]
    for key, row in new.items():
        if key not in old:
            changes.append(Sentence(change="added", text=f"{noun} {row.name} is new: {row.kind}."))
        elif differences := _compare(old[key], row):
            changes.append(Sentence(change="changed", text=f"{noun} {row.name}: {'; '.join(differences)}."))
    return changes


def _index(graph: ProcessGraph | None) -> dict[str, NodeRow]:
    """Rows by name: the numbers of nodes of a flow change whenever one is put in."""
    found: dict[str, NodeRow] = {}
    for row in graph.rows if graph is not None else ():
        name, number = row.name, 2
        while name in found:
            name, number = f"{row.name} ({number})", number + 1
        found[name] = row
    return found


def _compare(old: NodeRow, new: NodeRow) -> list[str]:
    compared = (
        ("is {}, no longer {}", "nothing", old.kind, new.kind),
        ("jobs of {}, no longer of {}", "no type", old.job_type, new.job_type),
        ("says {}, no longer {}", "nothing", old.detail, new.detail),
    )
    found = [words.format(after or none, before or none) for words, none, before, after in compared if before != after]
    ways = [[(way.label, way.target) for way in row.ways] for row in (old, new)]
    if ways[0] != ways[1]:
        found.append(f"goes on to {', '.join(target for _, target in ways[1]) or 'nothing'}")
    return found


def draw_changes(before: ProcessGraph | None, after: ProcessGraph) -> Picture:
    """The later version, with what is new or has changed."""
    old, nodes = _index(before), dict[int, Mark]()
    for key, row in _index(after).items():
        number = after.numbers.get(row.key)
        if number is None:
            continue
        if key not in old:
            nodes[number] = Mark(classes=("added",), note="+ new", words="new")
        elif _compare(old[key], row):
            nodes[number] = Mark(classes=("changed",), note="~ changed", words="changed")
    return build_picture(after.drawing, Marks(nodes=nodes), label="Diagram of the later version")


def build_routes(language: ProcessLanguage) -> Routes:
    """The pages about definitions of a language."""
    root, one = f"/console/{language.page}", f"/{language.page}/{{{language.parameter}}}"
    navigation = Navigation("Processes", language.title, language.key)
    return (
        Page(name=language.page, path=root, show=build_list(language), navigation=navigation),
        Page(name=f"{language.code}_definition", path=f"/console{one}", show=build_page(language)),
        Page(name=f"{language.code}_definition_diff", path=f"/console{one}/diff", show=build_diff(language)),
        build_part(f"{language.code}_counts", f"{one}/counts", build_counts(language)),
    )


ROUTES: Final[Routes] = tuple(route for language in LANGUAGES for route in build_routes(language))
