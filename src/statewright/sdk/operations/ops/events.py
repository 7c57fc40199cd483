"""What was committed, for other systems (docs/reference/operations.md#events-out)."""

from collections.abc import Sequence

from statewright.operations import events
from statewright.sdk.exchange import make_method
from statewright.sdk.operations.calls import Instant, Operation, build_query
from statewright.sdk.operations.ops.work import request


def get_recording() -> Operation[events.EventRecording]:
    """Whether the tenant records events, and since when. For operators."""
    return request(events.GET_EVENT_RECORDING)


def set_recording(*, enabled: bool, idempotency_key: str | None = None) -> Operation[events.EventRecording]:
    """Have the tenant record events, or stop it. For operators."""
    return request(events.SET_EVENT_RECORDING, body=events.RecordingSwitch(enabled=enabled), key=idempotency_key)


def read(
    *,
    after: str | None = None,
    since: Instant | None = None,
    kinds: Sequence[events.Kind] = (),
    model_name: str | None = None,
    model_version: int | None = None,
    entity_id: str | None = None,
    to_state: str | None = None,
    include_body: events.IncludeBody = "NONE",
    limit: int = 50,
) -> Operation[events.EventPage]:
    """A page of events, the oldest first: behind the ``next_cursor`` of the page before (``after``), or from an instant
    on; without either a page without events, of which ``next_cursor`` is where it goes on from now.
    """
    query = {
        "after": after,
        "since": dict(build_query(since=since)).get("since"),
        "kinds": kinds,
        "modelName": model_name,
        "modelVersion": model_version,
        "entityId": entity_id,
        "toState": to_state,
        "includeBody": include_body,
        "limit": limit,
    }
    return request(events.READ_EVENTS, query=query)


class EventMethods:
    """The methods of ``Client.events``."""

    recording = make_method(get_recording)
    record = make_method(set_recording)
    read = make_method(read)
