"""What Mermaid itself makes of our diagrams: the nodes, edges and classes of what they are drawn from.

Mermaid comes from the registry of npm, pinned in ``diagrams``, into a cache below the build directory; where it cannot
be had the tests are skipped.
"""

import html
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import Struct

from statewright.flows import FlowGraph, compile_text
from statewright.flows.mermaid import STYLES, render_diagram
from statewright.playbooks import compile_playbook, mermaid
from statewright.playbooks.definition import Playbook
from statewright.playbooks.documents import read_document
from statewright.processes.changes import ExecutionStatus
from statewright.steps import draw_definition, draw_instance
from tests.e2e.registries import find_program, install, run
from tests.unit.flows.cases import read_cases
from tests.unit.playbooks.traces import compile_text as compile_case
from tests.unit.playbooks.traces import read_traces
from tests.unit.steps.test_mermaid import PROCESS
from tests.unit.steps.world import World

HERE = Path(__file__).parent / "diagrams"
ROOT = Path(__file__).parents[2]
FLOW_TABLES = ("runs.txt", "more_runs.txt", "stops.txt")
HOSTILE_FLOWS = (
    "@task x '''%%{init: {}}%% ends with end note''' x → click → Click-it → default → defaults:x → href → state → end",
    'class|note|style → naïve → <entity:a/1?x=%20&y="z"#`b`;{[*]}> ',
    "3d-render → 2x",
    "<- a: 1 -> → * { A → :x B ; C → :x } → <http://x/y>",
)
HOSTILE_GUARDS = ("{{ '`%%{init}%%`' }}", '{{ "a|b" ~ "]}" }}', "{{ x <= 1 and y >= 2 and z == '& # <b>' }}")

Read: TypeAlias = Callable[[Iterable[str]], "list[Picture]"]


class Picture(Struct, frozen=True, kw_only=True):
    """A diagram as Mermaid has it: labels and classes of the nodes by their ids, edges with their labels."""

    labels: Mapping[str, str]
    classes: Mapping[str, str]
    edges: set[tuple[str, str, str]]


@pytest.fixture(scope="module")
def read() -> Read:
    """Diagrams to pictures."""
    node = find_program("node")
    cache = ROOT / "build" / "diagrams"
    lock = HERE / "package-lock.json"
    if not (cache / "complete").exists() or (cache / lock.name).read_bytes() != lock.read_bytes():
        npm = find_program("npm")
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(HERE, cache)
        install(npm, "ci", "--ignore-scripts", "--fetch-retries=0", within=cache)
        (cache / "complete").touch()
    shutil.copy(HERE / "read_diagrams.mjs", cache)

    def read_all(diagrams: Iterable[str]) -> list[Picture]:
        told = run(node, "read_diagrams.mjs", within=cache, stdin=json.dumps([*diagrams]))
        return [to_picture(json.loads(line)) for line in told.splitlines()]

    return read_all


def to_picture(told: dict[str, list[dict[str, str]]]) -> Picture:
    assert "error" not in told, told["error"]
    nodes = [node for node in told["nodes"] if "----" not in node["id"]]  # those of notes
    names = {node["id"]: node["id"] for node in nodes}
    return Picture(
        labels={node["id"]: decode(node["label"]) for node in nodes},
        classes={node["id"]: node["classes"].replace("statediagram-state", "").strip() for node in nodes},
        edges={
            (names[edge["start"]], names[edge["end"]], decode(edge["label"]))
            for edge in told["edges"]
            if edge["start"] in names and edge["end"] in names
        },
    )


def decode(text: str) -> str:
    """Entities are in signs of Mermaid's own until it has drawn them."""
    return html.unescape(text.replace("ﬂ°°", "&#").replace("ﬂ°", "&").replace("¶ß", ";"))


def list_flows() -> list[FlowGraph]:
    texts = [case.text for table in FLOW_TABLES for case in read_cases(table)]
    texts += [case.text.partition("\n---\n")[0] for case in read_cases("diagrams.txt")]
    texts += [file.read_text() for file in sorted((ROOT / "examples" / "flows").glob("*.flow"))]
    return [compile_text(text) for text in (*texts, *HOSTILE_FLOWS)]


def number(node_id: str) -> str:
    """The number of a node in its id."""
    found = re.search(r"(\d+)_?$", node_id)
    return node_id if found is None else found.group(1)


def test_flows_are_drawn_as_they_are(read: Read):
    graphs = list_flows()
    pictures = read(render_diagram(graph, with_docs=True) for graph in graphs)
    for graph, picture in zip(graphs, pictures, strict=True):
        assert_is_drawn(graph, picture, {})


def test_instances_of_flows_have_the_classes_of_their_nodes(read: Read):
    graphs = list_flows()
    colours: list[Mapping[int, ExecutionStatus]] = []
    for graph in graphs:
        entered = sorted({target for _, target in graph.edges if graph.nodes[target].kind != "end"})
        styles: Iterator[ExecutionStatus] = cycle(STYLES)
        colours.append({index: next(styles) for index in entered})
    pictures = read(render_diagram(graph, statuses) for graph, statuses in zip(graphs, colours, strict=True))
    for graph, picture, statuses in zip(graphs, pictures, colours, strict=True):
        assert_is_drawn(graph, picture, statuses)


def assert_is_drawn(graph: FlowGraph, picture: Picture, statuses: Mapping[int, ExecutionStatus]) -> None:
    ends = {0: "root_start", len(graph.nodes) - 1: "root_end"}
    labels = {"task": "name", "literal": "kind"}
    for node in graph.nodes[1:-1]:
        [id_] = [known for known in picture.labels if number(known) == str(node.index)]
        label = f"<{node.uri}>" if node.kind in ("read", "write") else getattr(node, labels.get(node.kind, ""), id_)
        assert picture.labels[id_] == label
        status = statuses.get(node.index)
        assert picture.classes[id_] == ("" if status is None else STYLES[status][0])
    assert len(picture.labels) == len(graph.nodes) - sum(not any(end in edge for edge in graph.edges) for end in ends)
    assert {(number(start), number(end), label) for start, end, label in picture.edges} == {
        (
            ends.get(source, str(source)),
            ends.get(target, str(target)),
            "each" if graph.nodes[target].is_iterated else "",
        )
        for source, target in graph.edges
    }


def test_playbooks_are_drawn_with_the_classes_of_their_steps(read: Read):
    playbooks = [compile_case(case.playbook).playbook for case in read_traces()]
    playbooks += [
        compile_playbook(read_document(file.read_text()))
        for file in sorted((ROOT / "examples" / "playbooks").glob("*.yaml"))
    ]
    playbooks += [
        compile_case(json.dumps({"workflow": [a_hostile_step(guard), {"step": "end"}]})).playbook
        for guard in HOSTILE_GUARDS
    ]
    colours = [colour_steps(one) for one in playbooks]
    pictures = read(mermaid.render_diagram(one, statuses) for one, statuses in zip(playbooks, colours, strict=True))
    for playbook, picture, statuses in zip(playbooks, pictures, colours, strict=True):
        ids = {step.name: f"s{place}" for place, step in enumerate(playbook.steps)}
        assert picture.labels == {ids[step.name]: step.name for step in playbook.steps}
        assert {node: classes.split()[-1] for node, classes in picture.classes.items()} == {
            ids[name]: status.lower() for name, status in statuses.items()
        }
        arcs = [(step.name, arc) for step in playbook.steps for arc in (step.router.arcs if step.router else ())]
        assert {(start, end) for start, end, _ in picture.edges} == {(ids[name], ids[arc.target]) for name, arc in arcs}
        assert {label for *_, label in picture.edges} == {
            "" if arc.when is None else cut(" ".join(str(arc.when.source).split())) for _, arc in arcs
        }


def cut(label: str) -> str:
    limit = mermaid.MAX_LABEL_CHARS
    return label if len(label) <= limit else f"{label[: limit - 1]}…"


def colour_steps(playbook: Playbook) -> dict[str, mermaid.StepStatus]:
    styles: Iterator[mermaid.StepStatus] = cycle(mermaid.STYLES)
    return {step.name: next(styles) for step in playbook.steps}


def a_hostile_step(guard: str) -> dict[str, object]:
    arcs = [{"step": "end", "when": guard}]
    return {"step": "click", "tool": {"kind": "compute"}, "next": {"arcs": arcs}}


def test_steps_are_drawn_with_the_classes_of_an_instance(read: Read):
    world = World(PROCESS).start(n=1).signal("park")
    drawn = draw_instance(PROCESS.definition, world.instance, world.last_statuses)
    plain, coloured = read([draw_definition(PROCESS.definition), drawn])
    assert plain.labels == coloured.labels == {f"s{at}": step.name for at, step in enumerate(PROCESS.definition.steps)}
    assert plain.edges == coloured.edges
    assert {("s5", "s6", '#n > 1 && x == "a"'), ("s5", "s7", "true"), ("s0", "s1", "")} <= plain.edges
    assert {node: classes.split()[-1] for node, classes in coloured.classes.items() if len(classes.split()) > 1} == {
        "s0": "done",
        "s1": "active",
        "s2": "done",
        "s4": "active",
    }
