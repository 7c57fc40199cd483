"""The tables of this directory: ``runs.txt`` and ``errors.txt``.

A case begins with ``==`` and its name; its text follows, and sections that begin with ``--``. Behaviour of tasks:
``A => value`` gives that value every time, ``A => one ; other`` one after the other and then the last for ever,
``FAIL`` fails; within a value ``COUNT`` is the number of inputs, a bare name a member of the input, ``2*x`` twice one.
``input`` is what the flow is given, ``visits`` how often a node may be activated.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from statewright.flows.graph import Graph, Node
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue

HERE = Path(__file__).parent
DEFAULT_VISITS = 1000


class Failure(Struct, frozen=True):
    """What a task gives that fails."""


class Case(Struct, frozen=True):
    """A case of a table: its sections by name; the text of the flow is ``text``."""

    name: str
    sections: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.sections["text"]

    @property
    def edges(self) -> list[tuple[str, str]]:
        pairs = (edge.split("→") for edge in self.sections["edges"].split(", "))
        return sorted((source, target) for source, target in pairs)

    @property
    def run(self) -> list[str]:
        """Invocations, each as ``NAME.n parameters <- input``."""
        return self.sections["run"].splitlines()

    @property
    def result(self) -> list[str]:
        return self.sections["result"].splitlines()

    @property
    def input(self) -> JsonValue:
        lines = [line for line in self.sections["tasks"].splitlines() if line.startswith("input ")]
        return decode(lines[0].removeprefix("input ")) if lines else {}

    @property
    def visits(self) -> int:
        lines = [line for line in self.sections["tasks"].splitlines() if line.startswith("visits ")]
        return int(lines[0].split()[1]) if lines else DEFAULT_VISITS


class Behaviour:
    """What the tasks of a case give."""

    def __init__(self, case: Case) -> None:
        lines = [line.split(" => ") for line in case.sections["tasks"].splitlines() if " => " in line]
        self._given: dict[str, list[str]] = {name: values.split(" ; ") for name, values in lines}

    def give(self, name: str, value: JsonValue) -> "JsonValue | Failure":
        """The output of one invocation of a task (or ``read N``, ``write N``) with this input."""
        given = self._given.get(name)
        if given is None:
            return value
        form = given[0] if len(given) == 1 else given.pop(0)
        return Failure() if form == "FAIL" else fill(form, value)


def fill(form: str, value: JsonValue) -> JsonValue:
    """A value from how it is written in a table, given the input of the task."""
    members = value if isinstance(value, dict) else {}
    count = len(value) if isinstance(value, list) else 1
    text = form.replace("COUNT", str(count))
    text = re.sub(r":2\*(\w+)", lambda found: f":{2 * int(str(members[found[1]]))}", text)
    text = re.sub(r":(?!true|false|null)([a-z]+)", lambda found: f":{members[found[1]]}", text)
    return decode(text)


def read_cases(name: str) -> Sequence[Case]:
    """All cases of a table."""
    cases = []
    for block in re.split(r"^== ", (HERE / name).read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = block.partition("\n")
        parts = re.split(r"^-- (\w+)\n", rest, flags=re.MULTILINE)
        sections = {"text": parts[0].removesuffix("\n")}
        sections |= {key: content.strip("\n") for key, content in zip(parts[1::2], parts[2::2], strict=True)}
        cases.append(Case(title, sections))
    return cases


def name_node(node: Node) -> str:
    """A node as tables call it."""
    names = {"start": "▶", "end": "■", "task": f"{node.name}.{node.index}"}
    prefixes = {"fork": "f", "join": "j", "literal": "lit", "read": "rd", "write": "wr"}
    return names.get(node.kind) or f"{prefixes[node.kind]}{node.index}"


def name_edges(graph: Graph) -> list[tuple[str, str]]:
    """The edges of a graph, as tables list them."""
    return sorted((name_node(graph.nodes[source]), name_node(graph.nodes[target])) for source, target in graph.edges)
