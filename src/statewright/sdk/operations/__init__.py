"""What clients ask the service for, as values: the request, and how its answer is read.

Pure: the clients of ``sdk.client`` send what is made here, one waiting in its thread, the other on an event loop, so
what they offer and how they read answers cannot differ. One module per subject of the REST API.
"""

from statewright.sdk.operations.calls import Call, Operation, Page, Pause, Script, ask
from statewright.sdk.operations.entities import Change, Deletion, Entity, WriteResult
from statewright.sdk.operations.search import Count, Group

__all__ = [
    "Call",
    "Change",
    "Count",
    "Deletion",
    "Entity",
    "Group",
    "Operation",
    "Page",
    "Pause",
    "Script",
    "WriteResult",
    "ask",
]
