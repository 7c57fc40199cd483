"""Commands about flows: ``statewright flows lint``, ``compile``, ``diagram``, ``run`` and ``simulate``
(docs/reference/flows.md#command-line), which read files and need no service, ``send`` and ``change``.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape

from statewright.cli.client import command, fail
from statewright.cli.local_definitions import (
    LocalLanguage,
    Report,
    add_commands,
    call_function,
    find_functions,
    parse_option,
    print_json,
    read_definition,
    read_stubs,
    show,
    take_answer,
    tell_missing,
)

if TYPE_CHECKING:
    from statewright.flows import FlowGraph, FlowNode, Invocation, LocalInstance
    from statewright.jsonval.values import JsonValue
    from statewright.sdk import Client

TASKS: Final = "TASKS"
"""The mapping of a file of tasks, for names that no function can have."""

FlowFile = Annotated[str, typer.Argument(help="Flow as text; `-` for standard input.", metavar="FILE")]
FlowInput = Annotated[str, typer.Option("--input", help="Input as JSON: an object or an array.", metavar="JSON")]

flows = typer.Typer(help="The flow language: check, compile, draw and run flows.", no_args_is_help=True)


def _check(file: str) -> Report:
    from statewright.flows import InvalidFlow, compile_text
    from statewright.flows.builtin_tasks import find_builtin_tasks
    from statewright.flows.requests import list_misspellings

    try:
        graph = compile_text(read_definition(file))
        find_builtin_tasks(graph)  # their parameters, too
    except InvalidFlow as refused:
        place = {"line": refused.position.line, "column": refused.position.column}
        told = {"code": refused.code, **place, "text": refused.reason, "piece": refused.piece}
        return {"file": file, "error": {**told, "expected": list(refused.expected)}, "warnings": []}
    return {"file": file, "error": None, "warnings": [*graph.warnings, *list_misspellings(graph)]}


def _list_lines(report: Report) -> Iterator[str]:
    error = report["error"]
    lines = [f"{warning.partition(' ')[0]}: warning: {warning.partition(' ')[2]}" for warning in report["warnings"]]
    if error:
        place = f"{error['line']}:{error['column']}"
        lines += [f"{place}: error {error['code']}: {error['text']}"]
        lines += [f"{place}: hint: {hint}" for hint in _list_hints(error)]
    for line in lines or [" fine"]:
        yield escape(f"{report['file']}:{line}")


add_commands(flows, LocalLanguage(checked="flows", files="Flows as text", check=_check, list_lines=_list_lines))


@flows.command(name="compile")
def compile_(file: FlowFile) -> None:
    """Print the graph of a flow as JSON."""
    from statewright.flows import graph_to_document

    print_json(graph_to_document(_compile(file)))


@flows.command()
def diagram(
    file: FlowFile,
    vertical: Annotated[bool, typer.Option("--vertical", help="Draw from top to bottom.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Write the documentation of tasks beside them.")] = False,
) -> None:
    """Print a flow as a Mermaid state diagram."""
    from statewright.flows import render_diagram

    sys.stdout.write(render_diagram(_compile(file), is_vertical=vertical, with_docs=docs))


@flows.command()
def run(
    file: FlowFile,
    tasks: Annotated[
        Path | None, typer.Option("--tasks", help="Python file with a function for each task.", metavar="FILE")
    ] = None,
    flow_input: FlowInput = "{}",
) -> None:
    """Run a flow in this process, with tasks from a Python file, and print its result.

    A function is named as the task, `_` for `-` and `:`; or the file has a mapping TASKS. It is plain or async, and
    takes the input, or the input and the parameters. An exception fails the task.
    """
    from statewright.flows import TaskError

    graph = _compile(file)
    functions = _load_functions(tasks, graph)

    def implement(invocation: "Invocation") -> "JsonValue":
        try:
            node = invocation.node
            parameters = node.parameters
            if node.kind != "task" and isinstance(parameters, dict):
                parameters = {**parameters, "uri": node.uri if isinstance(node.uri, str) else None}
            return call_function(functions[_name_task(node)], invocation.input, parameters)
        except Exception as error:
            raise TaskError(f"{type(error).__name__}: {error}") from error

    _finish(graph, flow_input, implement)


@flows.command()
def simulate(
    file: FlowFile,
    flow_input: FlowInput = "{}",
    stubs: Annotated[
        str, typer.Option("--stubs", help="JSON: what each task answers; others give their input back.", metavar="JSON")
    ] = "{}",
) -> None:
    """Play a flow with answers that are given, print what each task is asked, and the result.

    `{"$fail": "reason"}` fails a task, `{"$each": [first, second]}` answers in turn.
    """
    from statewright.flows import TaskError

    graph = _compile(file)
    answers = read_stubs(stubs, _list_tasks(graph), "task of the flow")

    def implement(invocation: "Invocation") -> "JsonValue":
        name = _name_task(invocation.node)
        typer.echo(f"{name}.{invocation.node.index} <- {show(invocation.input)}", err=True)
        answer = take_answer(answers.get(name, invocation.input))
        if isinstance(answer, dict) and "$fail" in answer:
            raise TaskError(str(answer["$fail"]))
        return answer

    _finish(graph, flow_input, implement)


@command(flows)
def send(
    client: "Client",
    kind: Annotated[str, typer.Argument(help="What tasks `wait:event` wait for.", metavar="KIND")],
    fields: Annotated[
        str, typer.Option(help="JSON object: compared with the inputs of tasks that match it.", metavar="JSON")
    ] = "{}",
    output: Annotated[
        str, typer.Option(help="JSON: what the tasks answer; their inputs without it.", metavar="JSON")
    ] = "null",
    instance: Annotated[
        str, typer.Option(help="Instance that it is for, which keeps it until a task waits for it.", metavar="ID")
    ] = "",
    key: Annotated[str, typer.Option(help="The same by its business key.", metavar="KEY")] = "",
    definition: Annotated[str, typer.Option(help="Definition of the one with the key.", metavar="ID")] = "",
) -> None:
    """Deliver an event to the flows that wait for it, or to one instance, and print what it completed."""
    given = parse_option(fields, "--fields")
    if not isinstance(given, dict):
        fail("--fields is no object")
    delivered = client.flows.send_event(
        kind,
        given,
        parse_option(output, "--output"),
        instance_id=instance,
        business_key=key,
        definition_id=definition,
    )
    for receipt in delivered.receipts:
        element = "" if receipt.element is None else f" element {receipt.element}"
        typer.echo(f"{receipt.instance_id} node {receipt.node}{element}")
    typer.echo("kept for the instance" if delivered.kept else f"{delivered.tasks} tasks completed", err=True)


@command(flows)
def change(
    client: "Client",
    instance: Annotated[str, typer.Argument(help="Id of the instance.", metavar="INSTANCE")],
    node: Annotated[int, typer.Argument(help="Number of the node.", metavar="NODE")],
    flow_input: Annotated[str, typer.Argument(help="Its input as JSON.", metavar="JSON")],
    element: Annotated[int | None, typer.Option(help="Element of an iteration.", show_default=False)] = None,
    reason: Annotated[str, typer.Option(help="For the audit log.", show_default=False)] = "",
    restart: Annotated[bool, typer.Option("--restart", help="Let the instance go on with it.")] = False,
) -> str:
    """Give a node that failed or was interrupted another input; prints the status of the instance."""
    found = client.flows.change(instance, node, parse_option(flow_input, "JSON"), element=element, reason=reason)
    if restart:
        found = client.flows.restart(instance)
    return found.status


def _finish(graph: "FlowGraph", flow_input: str, implement: "Callable[[Invocation], JsonValue]") -> None:
    from statewright.flows import LocalInstance, compile_graph

    value = parse_option(flow_input, "--input")
    if not isinstance(value, dict | list):
        fail("--input is neither an object nor an array")
    instance = LocalInstance(compile_graph(graph), value)
    instance.run(implement)
    _report_end(instance)


def _report_end(instance: "LocalInstance") -> None:
    from statewright.flows import list_failures

    if instance.status == "COMPLETED":
        if instance.marking.warning:
            typer.echo(f"warning: {instance.marking.warning}", err=True)
        print_json(instance.result)
        return
    nodes = instance.flow.graph.nodes
    failures = [
        f"{nodes[index].name or nodes[index].kind}.{index}: {reason}" for index, reason in list_failures(instance)
    ]
    fail("; ".join(failures) or str(instance.marking.reason))


def _load_functions(file: Path | None, graph: "FlowGraph") -> dict[str, Callable[..., Any]]:
    """The functions of a file for all tasks of a flow, by their base names."""
    from statewright.flows.builtin_tasks import BUILTIN_TASKS

    wanted = sorted(_list_tasks(graph))
    found = {name: function for (name, *_), function in find_functions(file, TASKS, zip(wanted)).items()}
    found = {name: _pass_on for name in wanted if name in BUILTIN_TASKS} | found
    if missing := [name for name in wanted if name not in found]:
        fail(tell_missing(file, missing))
    return found


def _pass_on(given: Any) -> Any:
    """Stands for tasks that a service does: nothing is waited for here."""
    return given


def _list_tasks(graph: "FlowGraph") -> set[str]:
    """What implements the nodes of a flow: base names of tasks, ``read`` and ``write``."""
    return {_name_task(node) for node in graph.nodes} - _NO_TASKS


_NO_TASKS: Final = {"start", "end", "fork", "join", "literal"}


def _name_task(node: "FlowNode") -> str:
    return str(node.base) if node.kind == "task" else node.kind


def _compile(file: str) -> "FlowGraph":
    from statewright.flows import InvalidFlow, compile_text

    try:
        return compile_text(read_definition(file))
    except InvalidFlow as refused:
        fail(f"{file}:{refused}")


def _list_hints(error: Mapping[str, Any]) -> list[str]:
    """What those who are new to the language stumble over."""
    if error["code"] in {"DUPLICATE_INPUT_LABEL", "DUPLICATE_OUTPUT_LABEL"}:
        return ["a line break separates nothing: after a statement that ends in a label write ;"]
    if error["code"] == "SYNTAX" and error["piece"] in _ALMOST_ARROWS:
        return ["an arrow is → or ->"]
    if error["code"] == "SYNTAX" and error["piece"] in {"→", "->"} and "the end of the text" in error["expected"]:
        return ["a resource or a label at the end of an arrow ends its statement: the next one begins with it"]
    if error["text"].startswith("unexpected documentation"):
        return ["documentation stands after the declaration that it is about"]
    return []


_ALMOST_ARROWS: Final = frozenset("-=–—⇒⟶➔←<")
