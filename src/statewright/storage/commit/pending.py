"""A submission on its way to its verdict."""

import asyncio
from typing import Final

from statewright.storage.commit.bulk import is_bulk
from statewright.storage.commit.submission import Submission, Verdict
from statewright.tracing import get_trace

MAX_SHARED_ROWS: Final = 20
MAX_SHARED_CHARS: Final = 64 * 1024
"""What is larger does not share its statement."""


class PendingCommit:
    """Who waits for the verdict on a submission, since ``now`` by the clock of the event loop; and what batching has to
    know of it.
    """

    __slots__ = (
        "blocked_since",
        "future",
        "is_bulk",
        "is_large",
        "is_sent",
        "keys",
        "model_locks",
        "queued_at",
        "submission",
        "trace",
    )

    def __init__(self, submission: Submission, future: "asyncio.Future[Verdict]", now: float) -> None:
        self.submission = submission
        self.future = future
        self.queued_at = now
        self.trace = get_trace()
        rows = submission.rows
        claimed = {(tenant, f"#{hash_}") for tenant, _, hash_ in submission.claims if hash_}
        self.keys = {(row.tenant, row.id) for row in rows} | claimed
        if submission.growth:
            self.keys |= {(growth.tenant, f"@{growth.model}") for growth in submission.growth}
        self.blocked_since: float | None = None
        self.is_sent = False
        self.is_bulk = not submission.tasks and not submission.parts and is_bulk(rows)
        self.model_locks = {(tenant, model): lock for tenant, model, lock in submission.model_locks}
        characters = sum(len(row.document or "") for row in rows)
        for part, staged in submission.parts.items():
            self.keys.update([(part, name) for name in staged.names])
            characters += staged.size
        self.is_large = len(rows) > MAX_SHARED_ROWS or characters > MAX_SHARED_CHARS or bool(submission.growth)
