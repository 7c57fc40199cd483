"""The flow language as the host of processes knows it (``statewright.processes.language``), and what an operation adds
to the audit log.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from statewright.flows import definition, operations
from statewright.flows.builtin_tasks import Ask
from statewright.flows.definition import FlowProcess, FlowSource
from statewright.flows.graph import describe
from statewright.flows.instance import DEFINITION, INSTANCE, FlowInstance, instance_from_document, instance_to_document
from statewright.flows.lexer import STORED
from statewright.loop.turns import MAX_TURN_ELEMENTS
from statewright.net import NodeId
from statewright.net.effects import ChangePhase, CloseHumanTask, Effect, RecordExit, RecordPatch
from statewright.processes.changes import JobPolicy
from statewright.processes.language import (
    Applied,
    AuditEntry,
    InputPayloads,
    LanguageModels,
    LeaseLosses,
    ProcessLanguage,
    source_from_text,
)
from statewright.processes.user_tasks import ASK, USER_TASK

_PHASES: Final = {
    "RUNNING": "flow-restarted",
    "COMPLETED": "flow-completed",
    "FAILED": "flow-failed",
    "CANCELLED": "flow-cancelled",
    "TERMINATING": "flow-terminating",
    "TERMINATED": "flow-terminated",
}
"""What the audit log says of an instance that has come to a phase."""


class FlowProcesses:
    """The operations that the host calls; those of clients alone are in ``operations``."""

    name = "flows"
    merges_results = True
    children = None
    log = None
    run_reports = None
    lease_losses: LeaseLosses[FlowProcess, FlowInstance] = LeaseLosses(limit=definition.DELIVERIES - 1)
    payloads = InputPayloads(operations.build_payload)
    models = LanguageModels(
        instance=INSTANCE,
        definition=DEFINITION,
        user_task=USER_TASK,
        task_types=(ASK,),
        namespace="flows/",
        value_paths=(("input",), ("result",), ("marking", "tokens", "*", "payloads", "*")),
    )

    def compile_source(self, source: str, version: int) -> FlowProcess:
        """A definition that was stored by an upload."""
        return definition.compile_source(source_from_text(source, FlowSource), version, STORED)

    def limit_to_turn(self, process: FlowProcess) -> FlowProcess:
        """The same, but operations that enter many nodes, or whose guards look at much, give up."""
        return replace(process, turn_elements=MAX_TURN_ELEMENTS)

    def count_nodes(self, process: FlowProcess) -> int:
        """Nodes of the graph."""
        return len(process.flow.graph.nodes)

    start_instance = staticmethod(operations.start_instance)
    complete_job = staticmethod(operations.complete_job)
    fail_job = staticmethod(operations.fail_job)
    fire_timer = staticmethod(operations.fire_timer)
    instance_to_document = staticmethod(instance_to_document)
    instance_from_document = staticmethod(instance_from_document)
    complete_task = staticmethod(operations.complete_task)

    def list_audit_entries(
        self, process: FlowProcess, before: FlowInstance | None, applied: Applied[FlowInstance]
    ) -> Sequence[AuditEntry]:
        """Start, failures and phases; every other entry into a node is in the history."""
        started = [_describe_start(process, applied.instance)] if before is None else []
        return [*started, *(entry for effect in applied.effects for entry in _describe_effect(process, effect))]

    def get_definition_name(self, process: FlowProcess) -> str:
        """The name of the flow."""
        return process.name

    def get_node_type(self, process: FlowProcess, node: str) -> str:
        """The kind of a node; ``ask`` where its task is a user task."""
        is_asked = isinstance(process.builtin_tasks.get(NodeId(node)), Ask)
        return ASK if is_asked else process.flow.graph.nodes[int(node)].kind

    def find_member_tags(self, process: FlowProcess, job_type: str) -> str | None:
        """Always ``None``: the type of a task is the tag of the members that do it."""
        return None

    def find_policy(self, process: FlowProcess, node: str) -> JobPolicy:
        """That of the task, the read or the write."""
        return process.flow.policies[NodeId(node)]


def _describe_start(process: FlowProcess, instance: FlowInstance) -> AuditEntry:
    return AuditEntry(
        "flow-started",
        {
            "definitionId": process.source.id,
            "definitionName": process.name,
            "definitionVersion": process.version,
            "businessKey": instance.business_key,
        },
    )


def _describe_effect(process: FlowProcess, effect: Effect) -> Iterator[AuditEntry]:
    match effect:
        case RecordExit(status="FAILED", node=node, reason=reason):
            name = describe(process.flow.graph.nodes[int(node)])
            yield AuditEntry("node-failed", {"nodeId": node, "nodeName": name, "failureReason": reason})
        case RecordPatch(changes={"node": int(number), **rest}):
            name = describe(process.flow.graph.nodes[number])
            yield AuditEntry("flow-context-changed", {"nodeId": str(number), "nodeName": name, **rest})
        case CloseHumanTask(status="COMPLETED", task=task, by=by):
            yield AuditEntry("user-task-completed", {"userTaskId": task, "completedBy": by})
        case ChangePhase(phase=phase, reason=reason):
            yield AuditEntry(_PHASES[phase], {} if reason is None else {"failureReason": reason})
        case _:
            pass


FLOWS: Final[ProcessLanguage[FlowProcess, FlowInstance]] = FlowProcesses()
