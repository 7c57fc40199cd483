"""A toy language: somebody is sent on an errand, and what is brought back decides whether a second one is needed.

A definition is ``{"id", "ask", "lift", "limit", "within"}``. The job ``ask`` tells a weight; above the limit a second
job, ``lift``, follows. When the first is not done within the time, the errand ends late. With ``"after"`` it waits for
an errand of another definition first. The log of an errand has the nodes that it came to.
"""

import json
import os
import signal
from collections.abc import Sequence
from decimal import Decimal
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from statewright.entity import ModelKey
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.turns import TurnExceeded
from statewright.net import (
    HOLD,
    Arc,
    BoundaryTimer,
    Completed,
    Delay,
    ExecutionId,
    KernelResult,
    Language,
    Marking,
    Moment,
    Net,
    Node,
    NodeId,
    Problem,
    Routing,
    SubNet,
    Task,
    TimerId,
    Visit,
    WorkId,
    advance,
    marking_from_document,
    marking_to_document,
    parse_delay,
    start,
)
from statewright.net.effects import (
    Cancelled,
    ChangePhase,
    ChildEnded,
    Effect,
    Event,
    RecordEntry,
    TaskCompleted,
    TaskFailed,
    TimerFired,
)
from statewright.processes.changes import JobPolicy
from statewright.processes.language import (
    Applied,
    AuditEntry,
    BuiltinModel,
    ChildOutcome,
    InputPayloads,
    JobPlace,
    LanguageModels,
    NewInstance,
    ProcessInstance,
    ProcessLanguage,
    Rejection,
)

ENDS = {"COMPLETED": "complete", "FAILED": "fail", "CANCELLED": "cancel", "RUNNING": "advance"}
OWNER = "the errand office"
ERRAND = BuiltinModel(
    key=ModelKey("Errand", 1),
    owner=OWNER,
    sample={
        "id": "x",
        "definition": "d",
        "version": 1,
        "at": 1,
        "ended": 1,
        "key": "k",
        "parent": "p",
        "by": "e",
        "data": {},
        "marking": {},
    },
    states={"RUNNING": {name: state for state, name in ENDS.items()}, "COMPLETED": {}, "FAILED": {}, "CANCELLED": {}},
    client_transitions=frozenset({"cancel"}),
    open_paths=("$.data", "$.marking"),
)
PLAN = BuiltinModel(
    key=ModelKey("ErrandPlan", 1),
    owner=OWNER,
    sample={"id": "x", "version": 1, "uploadedAt": "a time", "contentHash": "h"},
    states={"DRAWN": {}},
)
CHORE = BuiltinModel(key=ModelKey("ErrandChore", 1), owner=OWNER, sample={"id": "x"}, states={"OPEN": {}})


class Plan(Struct, frozen=True):
    """A compiled definition."""

    id: str
    version: int
    limit: int
    net: Net
    is_brief: bool = False


class Errand(ProcessInstance, frozen=True, kw_only=True):
    """An instance."""


class Data(Language):
    """The rules of the kernel: what a job brings back is merged; a guard is the limit that the weight must exceed."""

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> JsonValue:
        return data

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        brought = visit.output if isinstance(visit.output, dict) else {}
        return Completed(data={**data, **brought}, output=brought)

    def evaluate_guard(self, guard: str, data: JsonObject, visit: Visit) -> bool | Problem:
        weight = data.get("weight")
        return weight > int(guard) if isinstance(weight, int | Decimal) else Problem("nobody told the weight")

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        return {**data, **changes}


class Followers:
    """Errands that wait for others."""

    def describe_outcome(self, process: Plan, instance: Errand) -> ChildOutcome:
        if instance.status == "COMPLETED":
            return ChildOutcome(output={"brought": instance.marking.data.get("weight")})
        return ChildOutcome(reason=instance.marking.reason or instance.status)

    def end_child(
        self, process: Plan, instance: Errand, execution: str, outcome: ChildOutcome, moment: Moment
    ) -> Applied[Errand]:
        ended = ChildEnded(ExecutionId(execution), outcome.output, outcome.reason)
        return _advance(process, instance, ended, moment)

    def cancel(self, process: Plan, instance: Errand, moment: Moment) -> Applied[Errand] | Rejection:
        return cancel(process, instance, moment)


class Logbook:
    """The nodes that errands came to."""

    def list_events(self, process: Plan, before: Errand | None, applied: Applied[Errand]) -> Sequence[JsonObject]:
        return [{"node": node} for node in _list_entries(applied.effects)]

    def find_labels(self, event: JsonObject) -> tuple[str, str]:
        return str(event["node"]), "success"


def _get_input(process: Plan, job: JobPlace, value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


class Errands:
    """The language, for the host."""

    name = "errands"
    merges_results = False
    children = Followers()
    log = Logbook()
    run_reports = None
    lease_losses = None
    payloads = InputPayloads(_get_input)
    models = LanguageModels(instance=ERRAND, definition=PLAN, user_task=CHORE, namespace="errands/")

    def compile_source(self, source: str, version: int) -> Plan:
        plan = json.loads(source)
        after, ask, lift, done, late = map(NodeId, ("after", "ask", "lift", "done", "late"))
        timer = BoundaryTimer(delay=parse_delay(plan["within"]) or Delay(0, 0), target=late, interrupting=True)
        choice = Routing(arcs=(Arc(lift, str(plan["limit"])), Arc(done)))
        nodes = (
            Node(id=ask, activity=Task(kind=plan["ask"], retries=1), timers=(timer,), routing=choice),
            Node(id=lift, activity=Task(kind=plan["lift"]), routing=Routing(arcs=(Arc(done),))),
            Node(id=done, ends=True),
            Node(id=late, ends=True),
        )
        first = (ask,)
        if "after" in plan:
            nodes += (Node(id=after, activity=SubNet(plan["after"]), routing=Routing(arcs=(Arc(ask),))),)
            first = (after,)
        net = Net(nodes={node.id: node for node in nodes}, entries=first, on_failure=HOLD)
        return Plan(plan["id"], version, plan["limit"], net)

    def limit_to_turn(self, process: Plan) -> Plan:
        return replace(process, is_brief=True)

    def count_nodes(self, process: Plan) -> int:
        return len(process.net.nodes)

    def start_instance(self, process: Plan, new: NewInstance, moment: Moment) -> Applied[Errand]:
        errand = Errand(
            id=new.id,
            definition_id=process.id,
            definition_version=process.version,
            marking=Marking(data={}),
            started_at=moment.at,
            business_key=new.business_key or None,
            parent_instance_id=new.parent_instance_id,
            awaited_by=new.awaited_by,
        )
        applied = _apply(errand, start(process.net, Data(), new.variables, moment), moment)
        return replace(applied, transitions=()) if applied.instance.status == "RUNNING" else applied

    def complete_job(
        self, process: Plan, instance: Errand, job: str, result: JsonValue, moment: Moment
    ) -> Applied[Errand] | Rejection:
        if isinstance(result, dict) and "takes" in result:
            _take_long(process, result)
        return _advance(process, instance, TaskCompleted(WorkId(job), result or {}), moment)

    def fail_job(self, process: Plan, instance: Errand, job: str, reason: str, moment: Moment) -> Applied[Errand]:
        return _advance(process, instance, TaskFailed(WorkId(job), reason), moment)

    def fire_timer(self, process: Plan, instance: Errand, timer: str, moment: Moment) -> Applied[Errand]:
        return _advance(process, instance, TimerFired(TimerId(timer)), moment)

    def instance_to_document(self, instance: Errand) -> JsonObject:
        document: JsonObject = {
            "id": instance.id,
            "definition": instance.definition_id,
            "version": instance.definition_version,
            "at": instance.started_at,
            "data": instance.marking.data,
            "marking": marking_to_document(instance.marking),
        }
        optional: JsonObject = {
            "ended": instance.completed_at,
            "key": instance.business_key,
            "parent": instance.parent_instance_id,
            "by": instance.awaited_by,
        }
        return document | {name: value for name, value in optional.items() if value is not None}

    def instance_from_document(self, document: JsonObject) -> Errand:
        return Errand(
            id=str(document["id"]),
            definition_id=str(document["definition"]),
            definition_version=cast("int", document["version"]),
            marking=marking_from_document(
                cast("JsonObject", document["marking"]), cast("JsonObject", document["data"])
            ),
            started_at=cast("int", document["at"]),
            completed_at=cast("int | None", document.get("ended")),
            business_key=cast("str | None", document.get("key")),
            parent_instance_id=cast("str | None", document.get("parent")),
            awaited_by=cast("str | None", document.get("by")),
        )

    @property
    def complete_task(self) -> None:
        return None

    def list_audit_entries(
        self, process: Plan, before: Errand | None, applied: Applied[Errand]
    ) -> Sequence[AuditEntry]:
        return [AuditEntry("errand-sent", {"nodeId": node}) for node in _list_entries(applied.effects)]

    def get_definition_name(self, process: Plan) -> str:
        return "Errands"

    def get_node_type(self, process: Plan, node: str) -> str:
        return "END" if process.net.nodes[NodeId(node)].ends else "JOB"

    def find_member_tags(self, process: Plan, job_type: str) -> str | None:
        return None

    def find_policy(self, process: Plan, node: str) -> JobPolicy:
        return JobPolicy()


ERRANDS: ProcessLanguage[Plan, Errand] = Errands()


def _take_long(process: Plan, result: JsonObject) -> None:
    """What a job brings back can be more than fits into a turn, into the time of a computation, or into its memory."""
    if process.is_brief:
        raise TurnExceeded
    result["computed_by"] = os.getpid()
    match result["takes"]:
        case "time":
            ("a" * 1_000_000).strip("b" * 1_000_000 + "a")
        case "memory":
            bytearray(2**40)
        case "its process":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            pass


def cancel(process: Plan, instance: Errand, moment: Moment) -> Applied[Errand] | Rejection:
    """An operation of the language's own."""
    if instance.is_terminal:
        return Rejection("conflict", "the errand is over")
    return _advance(process, instance, Cancelled("called off"), moment)


def _advance(process: Plan, instance: Errand, event: Event, moment: Moment) -> Applied[Errand]:
    return _apply(instance, advance(process.net, Data(), instance.marking, event, moment), moment)


def _apply(errand: Errand, result: KernelResult, moment: Moment) -> Applied[Errand]:
    ended = any(isinstance(effect, ChangePhase) for effect in result.effects)
    after = replace(
        errand,
        marking=result.marking,
        completed_at=moment.at if ended else errand.completed_at,
    )
    moves = (ENDS[after.status],) if result.effects else ()
    return Applied(instance=after, effects=result.effects, transitions=moves)


def _list_entries(effects: Sequence[Effect]) -> list[str]:
    return [effect.node for effect in effects if isinstance(effect, RecordEntry)]
