"""A node that does nothing on its own, and whose clock stands still, as who runs playbooks on it sees it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject
from statewright.playbooks.execution import Execution
from statewright.playbooks.source import PlaybookSource
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT
from statewright.services.processes import dialects, event_log, jobs
from statewright.services.processes.dialects import TransitionMembers
from statewright.services.processes.event_log import LoggedEvent
from statewright.services.processes.hosting import find_shared_queue
from statewright.services.processes.jobs import ClaimedJob
from tests.builders import Json
from tests.integration.playbooks.conftest import HEADER
from tests.integration.steps.conftest import Host, a_node


@dataclass(frozen=True)
class PlaybookNode:
    """Short verbs assert success."""

    host: Host

    async def run(self, text: str, **members: Json) -> str:
        """A new execution of a text without its header; its id."""
        source = PlaybookSource(text=HEADER + text)
        processes, caller = self.host.runtime.processes, self.host.caller
        uploaded = await dialects.upload_definition(PLAYBOOK_DIALECT, processes, caller, source)
        body = TransitionMembers({"path": uploaded.document["path"], **members})
        return (await dialects.start_instance(PLAYBOOK_DIALECT, processes, caller, body)).id

    async def read(self, execution: str) -> Execution:
        return await dialects.get_instance(PLAYBOOK_DIALECT, self.host.runtime.processes, self.host.caller, execution)

    async def claim(self, kind: str = "compute", worker: str = "w") -> ClaimedJob:
        """The only job of a kind."""
        return await self.host.job(f"playbook:{kind}", worker)

    async def report(self, job: ClaimedJob, progress: JsonObject) -> JsonObject:
        return await jobs.report_progress(
            find_shared_queue(self.host.runtime.processes), self.host.caller, job.id, progress, worker_id=job.worker_id
        )

    async def complete(self, job: ClaimedJob, completion: JsonObject) -> None:
        await jobs.complete(find_shared_queue(self.host.runtime.processes), self.host.caller, job.id, completion)

    async def events(self, execution: str, *types: str) -> list[JsonObject]:
        """The events of the log, of some types or all."""
        return [one.event for one in await self._list(execution) if not types or one.event["event_type"] in types]

    async def instants(self, execution: str, kind: str) -> list[str]:
        """When events of a type were."""
        return [to_rfc3339(one.at) for one in await self._list(execution) if one.event["event_type"] == kind]

    async def _list(self, execution: str) -> Sequence[LoggedEvent]:
        host = PLAYBOOK_DIALECT.find_host(self.host.runtime.processes)
        return (await event_log.list_events(host, self.host.caller, execution, limit=1000)).events


@asynccontextmanager
async def a_playbook_node(database: str, tenant: str = "") -> AsyncIterator[PlaybookNode]:
    """On a database of its own, in a tenant that nobody has seen before, or that of a node before it."""
    async with a_node(database, tenant or f"tenant-{uuid4().hex[:8]}") as host:
        yield PlaybookNode(host)
