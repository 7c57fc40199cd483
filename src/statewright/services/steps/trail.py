"""The audit trail of instances: what the entity API shows of an advance (spec/step-engine.md §16, §25.4).

Each entry is an event of type ``STATE_PROCESS_RESULT`` whose data names its ``kind`` and what belongs to it;
transitions of the instance are ``TRANSITION_MAKE``, as in every other run.
"""

from collections.abc import Iterable

import msgspec

from statewright.engine import events
from statewright.entity import AuditEvent
from statewright.jsonval.values import JsonObject
from statewright.steps.core import Applied, Instance, Process, audit_entries
from statewright.steps.core.instance import Status
from statewright.steps.core.lifecycle import INITIAL, TRANSITIONS

_encode = msgspec.json.Encoder(decimal_format="number").encode


def of_advance(process: Process, before: Instance | None, applied: Applied) -> list[events.Event]:
    """The events of one advance, in order: what happened, then the transitions that it amounts to."""
    status: Status = INITIAL if before is None else before.status
    found = [entry_event(entry.kind, entry.detail, status) for entry in audit_entries(process, before, applied)]
    for name in applied.transitions:
        target = _target(status, name, applied.instance.status)
        found.append(events.made(name, status, target))
        status = target
    return found


def entry_event(kind: str, detail: JsonObject, state: str | None = None) -> events.Event:
    """An entry of the step engine's audit log."""
    data: events.EventData = {"kind": kind, "success": not kind.endswith("-failed")}
    data |= {name: value for name, value in detail.items() if isinstance(value, str | int | bool)}
    about = next((f" {value}" for name, value in detail.items() if name.endswith("Id") and isinstance(value, str)), "")
    return events.Event("STATE_PROCESS_RESULT", f"{kind}{about}", state, data)


def encoded(found: Iterable[events.Event], at: int) -> str:
    """Events as they are stored, for the few statements that write them beside a job."""
    return _encode(
        [AuditEvent(type=one.type, at=at, details=one.details, state=one.state, data=one.data) for one in found]
    ).decode()


def _target(source: Status, name: str, final: Status) -> Status:
    """Where a transition leads; the last one of several leads to where the instance is."""
    targets: list[Status] = [
        target for (state, target), known in TRANSITIONS.items() if state == source and known == name
    ]
    return final if final in targets or not targets else targets[0]
