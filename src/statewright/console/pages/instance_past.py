"""What an instance of a process was doing at an instant, from what is stored of it (docs/console.md#pages)."""

from typing import Final

from msgspec.structs import replace

from statewright.console.calls import Reply
from statewright.console.pages.instance_state import InstanceAnswers
from statewright.console.values import get_instant, get_object, get_objects, get_text
from statewright.instants import from_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue

LATER: Final = frozenset({"endedAt", "outputSnapshot", "output", "failureReason", "reason"})
"""What an entry of the history has only when it has ended."""


def build_past(explained: Reply, entity: Reply, history: Reply, at: str) -> InstanceAnswers:
    """The answers as they would have been at an instant: what was stored then, and what had begun by then. Nobody knows
    any more what its tokens waited for.
    """
    document = get_object(entity.document, "data")
    tokens = get_objects(document, "tokens") or get_objects(get_object(document, "marking"), "tokens")
    told: JsonObject = {
        "instanceId": get_text(explained.document, "instanceId"),
        "status": get_text(get_object(entity.document, "meta"), "state"),
        "tokens": [{"stepId": get_text(each, "node")} for each in tokens if get_text(each, "stage") != "PENDING"],
    }
    return InstanceAnswers(
        explained=replace(explained, value=told),
        record=replace(entity, value=document),
        history=replace(history, value=_limit_history(history, at)) if history.is_ok else history,
        entity=entity,
        events=None,
    )


def _limit_history(history: Reply, at: str) -> JsonObject:
    until = from_rfc3339(at) or 0
    entries: list[JsonValue] = []
    for entry in history.items:
        if (get_instant(entry, "startedAt") or 0) > until:
            continue
        was_running = (get_instant(entry, "endedAt") or 0) > until
        kept: JsonObject = dict(entry)
        if was_running:
            kept = {"status": "RUNNING"}
            kept.update((name, value) for name, value in entry.items() if name not in {*LATER, "status"})
        entries.append(kept)
    limited: JsonObject = dict(history.document)
    limited["items"] = entries
    return limited
