"""What a run writes into the audit trail; the texts are part of the contract (docs/reference/workflows.md#events)."""

from collections.abc import Sequence
from typing import Final

from statewright.entity import Event, EventData

MAX_TOLD: Final = 20
"""Warnings of one callout that are kept; members may send any number."""

MAX_TEXT_CHARS: Final = 2048
"""Characters of a text of a member, or of a failure, that are kept."""


def trim_texts(texts: Sequence[str]) -> list[str]:
    """The first of the texts, each cut: what members say is kept, logged and sent in headers."""
    return [_cut(text) for text in texts[:MAX_TOLD]]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"


def build_started_event(details: str, state: str | None) -> Event:
    """A run begins; ``state`` is absent on create."""
    return Event("STATE_MACHINE_START", details, state)


def build_finished_event(details: str, state: str) -> Event:
    """A run has settled."""
    return Event("STATE_MACHINE_FINISH", details, state, {"success": True})


def build_workflow_skipped_event(workflow: str, reason: str) -> Event:
    """The selection criterion of a workflow did not hold."""
    return Event(
        "WORKFLOW_SKIP",
        f'Workflow "{workflow}" criterion not matched',
        None,
        {"workflowName": workflow, "reason": reason},
    )


def build_workflow_found_event(workflow: str, *, guarded: bool) -> Event:
    """A workflow governs the new entity."""
    how = "matched criterion" if guarded else "selected (no criterion)"
    return Event("WORKFLOW_FOUND", f'Workflow "{workflow}" {how}')


def build_default_workflow_event() -> Event:
    """No imported workflow governs the new entity."""
    return Event("WORKFLOW_FOUND", 'No imported workflow matched; using default workflow "default"')


def build_state_unknown_event(state: str) -> Event:
    """A loopback in a state that no workflow contains."""
    return Event("FORCE_SUCCESS", "No workflow contains current state for loopback", state)


def build_not_matched_event(
    details: str,
    *,
    state: str,
    workflow: str,
    transition: str,
    criterion: str,
    reason: str,
    warnings: Sequence[str] = (),
) -> Event:
    """A transition's criterion did not hold; ``warnings`` are those of its member."""
    data: EventData = {"workflowName": workflow, "transition": transition, "criterion": criterion, "reason": reason}
    return Event("TRANSITION_NOT_MATCH_CRITERION", details, state, data | _write_warnings(warnings))


def _write_warnings(warnings: Sequence[str]) -> EventData:
    return {"warnings": trim_texts(warnings)} if warnings else {}


def build_paused_event(processors: Sequence[str], state: str) -> Event:
    """A pipeline of processors is about to run."""
    return Event("PAUSE_FOR_PROCESSING", f"Paused for processors: [{' '.join(processors)}]", state)


def build_processed_event(
    processor: str, state: str, *, mode: str, reason: str | None = None, warnings: Sequence[str] = ()
) -> Event:
    """A processor has answered; ``mode`` as declared, maybe empty; ``reason`` says why it failed, None: it did not."""
    data: EventData = {"success": reason is None, "mode": mode}
    if reason is not None:
        data["reason"] = _cut(reason)
    return Event("STATE_PROCESS_RESULT", f'Processor "{processor}" completed', state, data | _write_warnings(warnings))


def build_process_failed_event(transition: str, error: str, state: str, warnings: Sequence[str] = ()) -> Event:
    """A pipeline has failed after a segment was committed."""
    details = f'Processor failed for transition "{transition}": {error}'
    return Event("STATE_PROCESS_RESULT", details, state, {"success": False} | _write_warnings(warnings))


def build_aborted_event(transition: str, state: str, *, expected: str, actual: str) -> Event:
    """The client demanded another version; ``expected`` and ``actual`` are transaction ids."""
    details = f'Transition "{transition}" aborted: entity has been modified since last read'
    data: EventData = {
        "reason": "ENTITY_MODIFIED",
        "transitionName": transition,
        "expectedTxId": expected,
        "actualTxId": actual,
    }
    return Event("TRANSITION_ABORTED", details, state, data)


def build_transition_event(transition: str, source: str, target: str) -> Event:
    """The state advances."""
    return Event("TRANSITION_MAKE", f'Transition "{transition}": {source} → {target}', source)


def build_schedule_armed_event(transition: str, state: str, fire_at: int, now: int) -> Event:
    """A task of a scheduled transition is to fire at ``fire_at``. Times in epoch milliseconds, here and below."""
    data: EventData = {"transition": transition, "sourceState": state, "scheduledTime": fire_at}
    details = f'Scheduled transition "{transition}" armed for {fire_at - now}ms from now'
    return Event("SCHEDULED_TRANSITION_ARM", details, state, data)


def build_schedule_cancelled_event(transition: str, source: str) -> Event:
    """The entity has left the state in which a task waited."""
    details = f'Scheduled transition "{transition}" cancelled (left state "{source}")'
    return Event("SCHEDULED_TRANSITION_CANCEL", details, source, {"transition": transition, "sourceState": source})


def build_born_expired_event(transition: str, state: str, fire_at: int, expire_at: int) -> Event:
    """A schedule function asks for an expiry that is not after the fire time."""
    details = f'Scheduled transition "{transition}" born expired (expiry {expire_at} is not after fire time {fire_at})'
    return Event("SCHEDULED_TRANSITION_EXPIRE", details, state, {"transition": transition, "sourceState": state})


def build_schedule_expired_event(transition: str, state: str, lateness: int, timeout: int, grace: int) -> Event:
    """A task was taken too late to fire. ``lateness``, ``timeout`` and ``grace`` in milliseconds."""
    how = f"lateness {lateness}ms > timeout {timeout}ms + grace {grace}ms"
    return Event("SCHEDULED_TRANSITION_EXPIRE", f'Scheduled transition "{transition}" expired ({how})', state)


def build_schedule_fired_event(transition: str, state: str) -> Event:
    """A scheduled transition has been taken; ``state`` is where the entity settled."""
    return Event("SCHEDULED_TRANSITION_FIRE", f'Scheduled transition "{transition}" fired', state)
