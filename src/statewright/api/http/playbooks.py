"""The REST interface of playbooks: ``/v1/playbooks`` and ``/v1/executions`` (docs/reference/executions.md#rest). Their
jobs are those of ``/v1/jobs``.

Errors are as those of flows; that of a document says all that is wrong with it in ``findings``.
"""

from typing import Final

from statewright.api.http.processes.bodies import decode_text
from statewright.api.http.processes.interface import ProcessInterface
from statewright.api.http.processes.tables import build_api
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


PLAYBOOK_API: Final = build_api(ProcessInterface(PLAYBOOK_DIALECT, read_source), source_types=(JSON, YAML))
