"""The JSON step engine as functions over values: no I/O, no clock, no waiting (seed 000, spec/step-engine.md).

* A definition is taken in by :func:`accept_text` (read, validated, hashed, linted) and compiled once into a
  :class:`Process`.
* An :class:`Instance` is one value. :mod:`operations` has a function for everything that can happen to it; each gives
  the instance afterwards and the effects that the shell carries out in the transaction that stores it.
* :func:`changes` says what effects amount to in tables; :mod:`history`, :mod:`audit` and :mod:`lifecycle` say so for
  those who read about it later.
* :mod:`simulation` plays a definition through without any of the outside world.
"""

from statewright.steps.core.audit import AuditEntry, audit_entries
from statewright.steps.core.compiling import Process, compile_definition
from statewright.steps.core.definition import Definition, Step
from statewright.steps.core.history import Ended, Execution, HistoryChanges, history_changes, history_item, with_end
from statewright.steps.core.instance import Instance, Status, from_document, instance_record, to_document
from statewright.steps.core.jobs import FailureReport, GivenUp, Ignored, JobState, Requeued, judge_failure
from statewright.steps.core.lifecycle import TRANSITIONS, Transition
from statewright.steps.core.mermaid import definition_diagram, instance_diagram
from statewright.steps.core.operations import (
    Applied,
    NewInstance,
    Refusal,
    cancel,
    complete_job,
    complete_user_task,
    complete_user_task_by_id,
    fail_job,
    fire_timer,
    retry_step,
    signal,
    start_instance,
)
from statewright.steps.core.routing import member_tags
from statewright.steps.core.rows import Changes, changes
from statewright.steps.core.simulation import Simulation, Stubs, simulate
from statewright.steps.core.stubs import read_stubs, simulation_report
from statewright.steps.core.upload import Accepted, accept_definition, accept_text
from statewright.steps.core.versions import Assigned, assign_version, content_hash

__all__ = [
    "TRANSITIONS",
    "Accepted",
    "Applied",
    "Assigned",
    "AuditEntry",
    "Changes",
    "Definition",
    "Ended",
    "Execution",
    "FailureReport",
    "GivenUp",
    "HistoryChanges",
    "Ignored",
    "Instance",
    "JobState",
    "NewInstance",
    "Process",
    "Refusal",
    "Requeued",
    "Simulation",
    "Status",
    "Step",
    "Stubs",
    "Transition",
    "accept_definition",
    "accept_text",
    "assign_version",
    "audit_entries",
    "cancel",
    "changes",
    "compile_definition",
    "complete_job",
    "complete_user_task",
    "complete_user_task_by_id",
    "content_hash",
    "definition_diagram",
    "fail_job",
    "fire_timer",
    "from_document",
    "history_changes",
    "history_item",
    "instance_diagram",
    "instance_record",
    "judge_failure",
    "member_tags",
    "read_stubs",
    "retry_step",
    "signal",
    "simulate",
    "simulation_report",
    "start_instance",
    "to_document",
    "with_end",
]
