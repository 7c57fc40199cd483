"""The routes of playbooks (docs/reference/executions.md#rest): those of all languages, and the event log.

Playbooks as they are uploaded (docs/reference/executions.md#rest).
"""

from typing import Final

from statewright.api.http.playbooks import event_log
from statewright.api.http.processes.bodies import Parameter, ProcessRoute, decode_text
from statewright.api.http.processes.interface import ProcessInterface
from statewright.api.http.processes.tables import build_table
from statewright.api.http.request import Request
from statewright.api.http.response import JSON
from statewright.failures import ProcessBadRequest
from statewright.playbooks.documents import MAX_DOCUMENT_BYTES
from statewright.playbooks.source import PlaybookSource
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT

YAML: Final = "application/yaml"


async def read_source(request: Request) -> PlaybookSource:
    """The playbook in a request, whatever its media type: YAML, of which JSON is a part."""
    raw = await request.body()
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise ProcessBadRequest(f"a playbook has at most {MAX_DOCUMENT_BYTES} bytes, this one {len(raw)}")
    return PlaybookSource(text=decode_text(raw))


PLAYBOOK_ROUTES: Final[tuple[ProcessRoute, ...]] = (
    *build_table(ProcessInterface(PLAYBOOK_DIALECT, read_source), source_types=(JSON, YAML)).values(),
    ProcessRoute(
        method="GET",
        path="/v1/executions/{id}/events",
        endpoint=event_log.list_events,
        id="listExecutionEvents",
        tag="Playbook executions",
        summary="The event log behind a number; with `Accept: text/event-stream` as it grows, until the end",
        query=(
            Parameter("after", "integer", "`seq` of the last event that is known; 0 when absent"),
            Parameter("limit", "integer", "1 to 1000, 100 when absent"),
        ),
        reply="PlaybookEvents",
        errors=(400, 404, 429),
        timeout=None,
        is_ours=True,
    ),
    ProcessRoute(
        method="GET",
        path="/v1/executions/{id}/values/{value}",
        endpoint=event_log.read_value,
        id="getExecutionValue",
        tag="Playbook executions",
        summary="A large value of the event log, by the name that `references` of its events have",
        reply="PlaybookValue",
        errors=(404,),
        is_ours=True,
    ),
)
