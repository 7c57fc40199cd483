"""The JSON step engine as functions over values: no I/O, no clock, no waiting
(docs/reference/steps.md#the-json-step-engine).

* A definition is taken in by :func:`accept_text` (read, validated, hashed, linted) and compiled once into a
  :class:`Process`.
* An :class:`Instance` is one value. :mod:`operations` has a function for everything that can happen to it; each gives
  the instance afterwards and the effects that the shell carries out in the transaction that stores it.
* :mod:`simulation` plays a definition through without any of the outside world.
"""

from statewright.steps.definition import Definition, Step, find_member_tags
from statewright.steps.instance import (
    TRANSITIONS,
    Instance,
    instance_from_document,
    instance_to_document,
    render_history_item,
    render_instance,
)
from statewright.steps.language import Process, compile_definition
from statewright.steps.mermaid import draw_definition, draw_instance, draw_process, draw_process_instance
from statewright.steps.operations import (
    Applied,
    cancel_instance,
    complete_job,
    complete_user_task,
    complete_user_task_by_id,
    fail_job,
    fire_timer,
    retry_step,
    signal_step,
    start_instance,
)
from statewright.steps.process_language import list_audit_entries
from statewright.steps.simulation import Simulation, read_stubs, report_simulation, simulate
from statewright.steps.upload import (
    Accepted,
    accept_definition,
    accept_text,
    hash_content,
)

__all__ = [
    "TRANSITIONS",
    "Accepted",
    "Applied",
    "Definition",
    "Instance",
    "Process",
    "Simulation",
    "Step",
    "accept_definition",
    "accept_text",
    "cancel_instance",
    "compile_definition",
    "complete_job",
    "complete_user_task",
    "complete_user_task_by_id",
    "draw_definition",
    "draw_instance",
    "draw_process",
    "draw_process_instance",
    "fail_job",
    "find_member_tags",
    "fire_timer",
    "hash_content",
    "instance_from_document",
    "instance_to_document",
    "list_audit_entries",
    "read_stubs",
    "render_history_item",
    "render_instance",
    "report_simulation",
    "retry_step",
    "signal_step",
    "simulate",
    "start_instance",
]
