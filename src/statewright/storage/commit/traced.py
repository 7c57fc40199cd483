"""A group commit that makes spans (docs/reference/traces.md#spans).

``tx.commit`` is the wait of one transaction, in its trace. ``tx.batch`` is a batch on its way to the database: it
belongs to no single trace, and links to the commits that it carries.
"""

from collections.abc import Sequence

from statewright.storage.commit.group_commit import GroupCommit
from statewright.storage.commit.outcomes import get_transaction_id
from statewright.storage.commit.pending import PendingCommit
from statewright.storage.commit.statement import Part
from statewright.storage.commit.submission import Stale, Submission, Verdict
from statewright.storage.pool import Pool
from statewright.tracing import Attributes, Tracer


class TracedGroupCommit(GroupCommit):
    """Takes the place of the plain one where traces are switched on."""

    def __init__(self, pool: Pool, tracer: Tracer, *, parts: Sequence[Part] = ()) -> None:
        super().__init__(pool, parts=parts)
        self._tracer = tracer

    async def commit(self, submission: Submission) -> Verdict:
        """Apply a submission atomically."""
        attributes: Attributes = {"tx.id": get_transaction_id(submission), "entity.count": len(submission.rows)}
        with self._tracer.begin("tx.commit", "client", attributes) as span:
            verdict = await super().commit(submission)
            span.set("tx.conflict", isinstance(verdict, Stale))
            return verdict

    async def _apply(self, batch: list[PendingCommit]) -> None:
        causes = [pending.trace for pending in batch if pending.trace is not None]
        attributes: Attributes = {"batch.size": len(batch), "db.system.name": "postgresql"}
        with self._tracer.begin("tx.batch", "client", attributes, parent=None, links=causes):
            await super()._apply(batch)
