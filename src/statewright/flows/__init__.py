"""The flow language: tasks connected by arrows, values along the edges (docs/reference/flows.md).

A text becomes a graph (:func:`compile_text`), a graph a net of the token kernel (:func:`compile_graph`). All of it is
pure: functions over values, without I/O, clock or waiting.
"""

from statewright.flows.building import compile_text
from statewright.flows.compiling import FlowLimits, compile_graph
from statewright.flows.graph import FlowGraph, FlowNode, graph_from_document, graph_to_document
from statewright.flows.lexer import InvalidFlow
from statewright.flows.mermaid import render_diagram
from statewright.flows.running import Invocation, LocalInstance, TaskError, list_failures

__all__ = [
    "FlowGraph",
    "FlowLimits",
    "FlowNode",
    "InvalidFlow",
    "Invocation",
    "LocalInstance",
    "TaskError",
    "compile_graph",
    "compile_text",
    "graph_from_document",
    "graph_to_document",
    "list_failures",
    "render_diagram",
]
