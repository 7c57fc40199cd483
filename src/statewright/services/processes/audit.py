"""The audit trail of instances: what the entity API shows of an advance (docs/reference/steps.md#recording,
docs/reference/steps.md#one-advance-one-version).

Each entry is an event of type ``STATE_PROCESS_RESULT`` whose data names its ``kind`` and what belongs to it;
transitions of the instance are ``TRANSITION_MAKE``, as in every other run.
"""

from collections.abc import Iterable

import msgspec

from statewright.engine import events
from statewright.entity import AuditEvent
from statewright.jsonval.values import JsonObject
from statewright.processes.language import Applied, I, P, ProcessLanguage

_encode = msgspec.json.Encoder(decimal_format="number").encode


def build_advance_events(
    language: ProcessLanguage[P, I], process: P, before: I | None, applied: Applied[I]
) -> list[events.Event]:
    """The events of one advance, in order: what happened, then the transitions that it amounts to."""
    states = language.models.instance.states
    status = next(iter(states)) if before is None else before.status
    found = [
        build_entry_event(entry.kind, entry.detail, status)
        for entry in language.list_audit_entries(process, before, applied)
    ]
    for name in applied.transitions:
        target = states[status].get(name, applied.instance.status)
        found.append(events.build_transition_event(name, status, target))
        status = target
    return found


def build_entry_event(kind: str, detail: JsonObject, state: str | None = None) -> events.Event:
    """An entry of the audit log of instances."""
    data: events.EventData = {"kind": kind, "success": not kind.endswith("-failed")}
    data |= {name: value for name, value in detail.items() if isinstance(value, str | int | bool)}
    about = next((f" {value}" for name, value in detail.items() if name.endswith("Id") and isinstance(value, str)), "")
    return events.Event("STATE_PROCESS_RESULT", f"{kind}{about}", state, data)


def encode_events(found: Iterable[events.Event], at: int) -> str:
    """Events as they are stored, for the few statements that write them beside a job."""
    return _encode(
        [AuditEvent(type=one.type, at=at, details=one.details, state=one.state, data=one.data) for one in found]
    ).decode()
