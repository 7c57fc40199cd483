"""Who has claimed jobs within the service, and reports on them as workers do."""

from datetime import timedelta

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.retries import FailureReport
from statewright.services.processes import jobs
from statewright.services.processes.jobs import ClaimedJob
from statewright.services.processes.queues import JobQueue
from statewright.services.runtime import Caller


class JobHolder:
    """Of jobs of a queue, under a name that nobody else has."""

    def __init__(self, queue: JobQueue, name: str) -> None:
        self.queue = queue
        self.name = name

    async def complete(self, caller: Caller, job: ClaimedJob, result: JsonValue) -> None:
        """Report a result. Raises ``ProcessBadRequest`` for one that the language does not take."""
        await jobs.complete(self.queue, caller, job.id, result, worker_id=self.name)

    async def fail(self, caller: Caller, job: ClaimedJob, message: str, *, retryable: bool) -> None:
        """Report a failure."""
        report = FailureReport(worker_id=self.name, message=message, retryable=retryable)
        await jobs.fail(self.queue, caller, job.id, report)

    async def report_progress(self, caller: Caller, job: ClaimedJob, report: JsonValue) -> JsonObject:
        """What was done so far; what need not be reported again. Raises ``ProcessConflict`` when the job is not this
        worker's any more, ``ProcessBadRequest`` for what the language does not take.
        """
        return await jobs.report_progress(self.queue, caller, job.id, report, worker_id=self.name)

    async def renew(self, caller: Caller, job: ClaimedJob, lease: timedelta) -> None:
        """Keep a job for longer."""
        await jobs.renew(self.queue, caller, job.id, worker_id=self.name, lease=lease)

    async def rest(self, caller: Caller, job: ClaimedJob, until: int) -> None:
        """Give a job back, to be claimed again from an instant on."""
        await jobs.rest(self.queue, caller, job.id, worker_id=self.name, until=until)
