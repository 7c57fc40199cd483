"""Unit tests of functions, without a server, a network or a database.

    from statewright.sdk.testing import FakeEngine

    def test_an_approval_leaves_a_notice():
        engine = FakeEngine(node)
        prize = engine.add("prize", 1, {"year": 2024}, state="NEW")
        done = engine.process("notify-approval", prize)
        assert done.document == {"year": 2024, "approved": True}
        assert [notice.data for notice in engine.entities("notice", 1)] == [{"text": "approved"}]

A function is called as a node calls it: its input and its result pass through the same code, and its client works on
entities in memory.
"""

from statewright.processes.changes import Backoff
from statewright.sdk.testing.engine import FakeEngine, Judged, Processed, Scheduled
from statewright.sdk.testing.jobs import Done, JobAttempt
from statewright.sdk.testing.playing import FunctionCall, Place, Played, PlayedMove, Save
from statewright.sdk.testing.store import Request
from statewright.sdk.testing.view import Lifecycle

__all__ = [
    "Backoff",
    "Done",
    "FakeEngine",
    "FunctionCall",
    "JobAttempt",
    "Judged",
    "Lifecycle",
    "Place",
    "Played",
    "PlayedMove",
    "Processed",
    "Request",
    "Save",
    "Scheduled",
]
