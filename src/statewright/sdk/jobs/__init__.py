"""Jobs of the JSON step engine, done by handlers of this program (spec/step-engine.md §13).

A worker polls for as many jobs as it has room for, runs a handler for each, and reports what it returned. The engine
delivers at least once: a job whose worker vanished comes again, so handlers should not mind being repeated.
"""

from statewright.sdk.jobs.job import Job, NonRetryable
from statewright.sdk.jobs.worker import JobWorker

__all__ = ["Job", "JobWorker", "NonRetryable"]
