"""The conformance tables of the flow language (tests/conformance/flows): how they are read, and how a case is played.

A case begins with ``== title``; its text is indented; ``key: value`` lines follow, of which some keys may repeat.
``tasks`` are answers by the base name of the task (``read`` and ``write`` for resources): JSON in which ``"=count"`` is
the number of inputs, ``"=2x"`` twice a member and ``"=i"`` a member; several, separated by ``|``, in turn; ``fail``.
``why`` names the rules from which the result follows. Results are derived by hand, never taken from a run.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from statewright.flows import FlowGraph, FlowLimits, Invocation, LocalInstance, TaskError, compile_graph, compile_text
from statewright.flows.graph import FlowNode
from statewright.flows.lexer import CURRENT, Rules
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue

TABLES = Path(__file__).parents[2] / "conformance" / "flows"


class Case(Struct, frozen=True):
    """One entry of a table."""

    title: str
    text: str
    lines: tuple[tuple[str, str], ...]

    def get(self, key: str, default: str = "") -> str:
        """The value of a key that occurs once."""
        return next((value for known, value in self.lines if known == key), default)


def read_cases(name: str) -> list[Case]:
    """The cases of a table."""
    cases = []
    for part in re.split(r"^== ", (TABLES / name).read_text(), flags=re.MULTILINE)[1:]:
        title, *rest = part.rstrip("\n").split("\n")
        text = "\n".join(line[2:] for line in rest if line.startswith("  "))
        pairs = [line.partition(": ") for line in rest if line and not line.startswith("  ")]
        cases.append(Case(title, text, tuple((key.rstrip(":"), value) for key, _, value in pairs)))
    return cases


def name_node(node: FlowNode) -> str:
    """The node as the tables name it."""
    short = {"start": "▶", "end": "■", "fork": "f", "join": "j", "literal": "lit", "read": "rd", "write": "wr"}
    prefix = short.get(node.kind)
    if prefix is None:
        return f"{node.name}.{node.index}"
    return prefix if node.kind in ("start", "end") else f"{prefix}{node.index}"


def list_edges(graph: FlowGraph) -> str:
    """The edges as the tables write them."""
    names = [name_node(node) for node in graph.nodes]
    return ", ".join(f"{names[source]}→{names[target]}" for source, target in graph.edges)


class Actors:
    """Answer for tasks, and note what they are asked."""

    def __init__(self, answers: str = "") -> None:
        self.asked: list[str] = []
        self._answers = {}
        self.change(answers)

    def change(self, answers: str) -> None:
        """Other answers from now on."""
        for part in re.split(r" (?=[\w:-]+=)", answers):
            name, _, listed = part.partition("=")
            self._answers[name] = [text for text in listed.split("|") if text]

    def do(self, invocation: Invocation) -> JsonValue:
        node = invocation.node
        if node.kind != "read":
            parameters = dump(node.parameters) if node.parameters else ""
            shown = f"({parameters})" if parameters else ""
            self.asked.append(f"{name_node(node)}{shown} ← {dump(invocation.input)}")
        name = node.base if node.kind == "task" else node.kind
        answers = self._answers.get(str(name))
        if not answers:
            return invocation.input
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.startswith("fail"):
            raise TaskError("boom")
        return fill(decode(answer), invocation.input)


def fill(answer: JsonValue, given: JsonValue) -> JsonValue:
    """An answer in which parts are computed from the input."""
    if isinstance(answer, dict):
        return {name: fill(member, given) for name, member in answer.items()}
    if isinstance(answer, list):
        return [fill(item, given) for item in answer]
    if answer == "=count":
        return len(given) if isinstance(given, list) else 1
    if isinstance(answer, str) and answer.startswith("="):
        assert isinstance(given, dict)
        member = given[answer.lstrip("=2")]
        return 2 * member if answer.startswith("=2") else member  # type: ignore[operator]
    return answer


def dump(value: object) -> str:
    """Compact JSON in the order of the members."""
    import json

    return json.dumps(value, separators=(",", ":"), default=str)


def answer_and_stop(instance: LocalInstance, actors: Actors, stop: str) -> None:
    """Answer some tasks, then terminate, by ``at once`` without waiting for those that run."""
    count, _, at_once = stop.partition(" ")
    for _ in range(int(count)):
        invocation = instance.open[0]
        instance.complete(invocation.task, actors.do(invocation))
    instance.terminate()
    if at_once:
        instance.terminate()


def play(case: Case, rules: Rules = CURRENT) -> Iterator[tuple[list[str], LocalInstance]]:
    """Run a case to its end, and again after each ``restart``: what was asked in that stretch, and the instance."""
    limits = FlowLimits(max_visits=int(case.get("visits", "1000")), iteration=int(case.get("limit", "100")))
    flow = compile_graph(compile_text(case.text, rules), limits)
    actors = Actors(case.get("tasks"))
    instance = LocalInstance(flow, decode(case.get("input", "{}")))
    if stop := case.get("stop"):
        answer_and_stop(instance, actors, stop)
    instance.run(actors.do)
    yield actors.asked, instance
    for answers in [value for key, value in case.lines if key == "restart"]:
        actors.asked = []
        actors.change(answers)
        assert instance.restart()
        instance.run(actors.do)
        yield actors.asked, instance
