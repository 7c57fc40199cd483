"""Two versions of a definition compared, as a picture, as a list and line by line (docs/console.md#pages)."""

import asyncio
from typing import Final, Literal

from msgspec import Struct

from statewright.console.calls import Reply
from statewright.console.diagrams.drawing import Mark, Marks
from statewright.console.diagrams.process import NodeRow, ProcessGraph
from statewright.console.pages.definitions import build_crumbs, call_definition, read_version
from statewright.console.pages.process_graph import call_graph, get_source, read_graph
from statewright.console.process_languages import LANGUAGES, ProcessLanguage
from statewright.console.request import ConsoleRequest, Page, Routes, Show
from statewright.console.views.page import DiffLine, Picture, View, build_picture, compare_lines
from statewright.console.views.records import DefinitionRecord

MAX_CHARS: Final = 256 * 1024
MAX_CHANGES: Final = 500


class ChangeView(Struct, frozen=True):
    """A node that differs."""

    change: Literal["added", "removed", "changed"]
    sign: str
    text: str


class DefinitionDiffView(Struct, frozen=True, kw_only=True):
    """What differs. ``lines``: none where the texts are too long to be compared."""

    language: ProcessLanguage
    id: str
    old: int
    new: int
    changes: tuple[ChangeView, ...]
    picture: Picture | None
    lines: tuple[DiffLine, ...] | None

    @property
    def path(self) -> str:
        """That of the definition."""
        return self.language.build_path(self.id)


def build_diff(language: ProcessLanguage) -> Show:
    """The page that compares two versions of a definition of a language."""

    async def show_diff(request: ConsoleRequest) -> View:
        definition = request.params[language.parameter]
        versions = (read_version(request, "from"), read_version(request, "to"))
        calls = [call_definition(language, definition, version) for version in versions]
        calls += [call for version in versions for call in call_graph(language, definition, version)]
        old, new, *diagrams = await request.call(*calls)
        pairs = ((old.require(), diagrams[:1]), (new.require(), diagrams[1:]))
        return await asyncio.to_thread(view_diff, language, definition, pairs[0], pairs[1])

    return show_diff


def view_diff(
    language: ProcessLanguage, definition: str, old: tuple[Reply, list[Reply]], new: tuple[Reply, list[Reply]]
) -> View:
    """The page from the answers of the API: the definition, and of flows its graph, of either version."""
    before, after = (read_graph(language, reply, more[0] if more else None) for reply, more in (old, new))
    texts = [get_source(language, reply) for reply, _ in (old, new)]
    short = max(map(len, texts)) <= MAX_CHARS
    changes = compare_graphs(before, after)
    data = DefinitionDiffView(
        language=language,
        id=definition,
        old=old[0].pick(DefinitionRecord).version,
        new=new[0].pick(DefinitionRecord).version,
        changes=tuple(changes[:MAX_CHANGES]),
        picture=draw_changes(before, after) if after is not None else None,
        lines=compare_lines(texts[0], texts[1]) if short else None,
    )
    return View(
        title=f"{definition}: two versions",
        data=data,
        crumbs=build_crumbs(language, definition),
        template="pages/definition_diff.html",
    )


def compare_graphs(before: ProcessGraph | None, after: ProcessGraph | None) -> list[ChangeView]:
    """Nodes that came, went or changed, in sentences."""
    old, new = _index(before), _index(after)
    noun = "Node" if any(graph is not None and graph.language == "flows" for graph in (before, after)) else "Step"
    changes = [ChangeView("removed", "−", f"{noun} {row.name} is gone.") for key, row in old.items() if key not in new]
    for key, row in new.items():
        if key not in old:
            changes.append(ChangeView("added", "+", f"{noun} {row.name} is new: {row.kind}."))
        elif differences := _compare(old[key], row):
            changes.append(ChangeView("changed", "~", f"{noun} {row.name}: {'; '.join(differences)}."))
    return changes


def _index(graph: ProcessGraph | None) -> dict[str, NodeRow]:
    """Rows by name: the numbers of nodes of a flow change whenever one is put in."""
    if graph is None:
        return {}
    found: dict[str, NodeRow] = {}
    for row in graph.rows:
        name, number = row.name, 2
        while name in found:
            name, number = f"{row.name} ({number})", number + 1
        found[name] = row
    return found


def _compare(old: NodeRow, new: NodeRow) -> list[str]:
    found: list[str] = []
    if old.kind != new.kind:
        found.append(f"is {new.kind}, no longer {old.kind}")
    if old.job_type != new.job_type:
        found.append(f"jobs of {new.job_type or 'no type'}, no longer of {old.job_type or 'no type'}")
    if old.detail != new.detail:
        found.append(f"says {new.detail or 'nothing'}, no longer {old.detail or 'nothing'}")
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


ROUTES: Final[Routes] = tuple(
    Page(
        name=f"{language.code}_definition_diff",
        path=f"/console/{language.page}/{{{language.parameter}}}/diff",
        show=build_diff(language),
    )
    for language in LANGUAGES
)
