"""The graph of a definition on a page: picture, table and source text."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply
from statewright.console.diagrams.petri import read_playbook
from statewright.console.diagrams.plan import choose_tier
from statewright.console.diagrams.process import (
    NodeRow,
    ProcessGraph,
    read_flow,
    read_playbook_net,
    read_steps,
)
from statewright.console.process_languages import FLOWS, STEPS, ProcessLanguage
from statewright.console.request import InvalidField, Query
from statewright.console.views.entities import fits_page, write_text
from statewright.console.views.page import Line, Picture, build_picture, number_lines
from statewright.console.views.records import DefinitionRecord

ROWS: Final = 200
"""Nodes of one page of the table."""


class GraphView(Struct, frozen=True, kw_only=True):
    """What is shown of a graph. ``picture``: none where the definition is too large to be read here."""

    picture: Picture | None
    rows: tuple[NodeRow, ...]
    total: int
    next: str | None
    first: str | None
    focus: str
    lines: tuple[Line, ...]
    text: str | None
    """The definition as text; none where it is too long for a page."""
    noun: str


def call_graph(language: ProcessLanguage, definition: str, version: int) -> list[ApiCall]:
    """The calls that bring the graph of a definition, beside that for the definition."""
    if language is not FLOWS:
        return []
    version_path = ("versions", version) if version else ()
    return [language.call_definitions(definition, *version_path, "diagram", query={"format": "graph"})]


def read_graph(language: ProcessLanguage, definition: Reply, diagram: Reply | None) -> ProcessGraph | None:
    """The graph from the answers of the API; None where they have none that can be drawn."""
    if not definition.is_ok:
        return None
    if language is STEPS:
        return read_steps(definition.document)
    if language is FLOWS:
        return read_flow(diagram.document) if diagram is not None and diagram.is_ok else None
    source = read_playbook(definition.pick(DefinitionRecord).source)
    return None if source is None else read_playbook_net(source)


def get_source(language: ProcessLanguage, definition: Reply) -> str:
    """The text of a definition: as it was written, or as JSON."""
    return write_text(definition.value) if language is STEPS else definition.pick(DefinitionRecord).source


def view_graph(language: ProcessLanguage, definition: Reply, graph: ProcessGraph | None, query: Query) -> GraphView:
    """The view of a graph; ``focus`` of the query is the key of a node, ``from`` the first row."""
    text = get_source(language, definition) if fits_page(definition.value) else None
    rows = graph.rows if graph is not None else ()
    start = read_start(query)
    focus = query.get("focus")
    refs: dict[int, list[str]] = {}
    for row in rows:
        for number in range(row.lines[0], row.lines[1] + 1) if row.lines else ():
            refs.setdefault(number, []).append(row.ref)
    is_source = language is not STEPS
    return GraphView(
        picture=draw_graph(graph, focus) if graph is not None else None,
        rows=rows[start : start + ROWS],
        total=len(rows),
        next=f"{query.change(**{'from': str(start + ROWS)})}#nodes" if start + ROWS < len(rows) else None,
        first=f"{query.change(**{'from': None})}#nodes" if start else None,
        focus=focus if graph is not None and focus in graph.numbers else "",
        lines=number_lines(text, refs) if text is not None and is_source else (),
        text=text,
        noun="nodes" if language is FLOWS else "steps",
    )


def read_start(query: Query) -> int:
    """The first row of the table. Raises ``InvalidField``."""
    text = query.get("from", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise InvalidField("from", "is the number of a row")
    return int(text)


def draw_graph(graph: ProcessGraph, focus: str = "") -> Picture:
    """The picture; of a large one what is near a node."""
    number = graph.numbers.get(focus)
    is_near = number is not None and choose_tier(graph.drawing) == 3
    label = {"steps": "Diagram of the steps", "flows": "Diagram of the flow", "playbooks": "Petri net of the playbook"}
    return build_picture(graph.drawing, label=label[graph.language], focus=number, is_neighbourhood=is_near)
