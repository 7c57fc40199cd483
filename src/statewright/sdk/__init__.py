"""The public names of the SDK: for calculation nodes, and for applications (docs/guides/client.md).

    from statewright.sdk import Node

    node = Node(tags=["approval-service"])

    @node.processor("notify-approval")
    def notify(prize, context):
        context.client.create("notice", 1, {"text": "approved"})  # in the transaction of the transition
        return prize | {"approved": True}

``statewright node module:node`` runs it, and so does ``node.run()``. In a module without a node, the module-level
``processor``, ``criterion``, ``schedule``, ``job``, ``task`` and ``task_kind`` register with ``default_node``.
"""

from statewright.sdk.client import AsyncClient, Client
from statewright.sdk.endpoint import Tls
from statewright.sdk.errors import (
    CallFailed,
    Conflicting,
    Invalid,
    Missing,
    Modified,
    NotAllowed,
    Problem,
    Refused,
    RunFailed,
    SearchFailed,
    TokenUnavailable,
    TransactionOver,
    Unavailable,
    Unreachable,
)
from statewright.sdk.exchange import ONCE, RetryPolicy
from statewright.sdk.functions import Caller, Context
from statewright.sdk.jobs import Job, NonRetryable, RetryLater, Task, TaskCall
from statewright.sdk.node import Node
from statewright.sdk.operations import Entity, WriteResult
from statewright.sdk.outcomes import No, Rejected, Schedule
from statewright.sdk.tokens import ClientCredentials, ClientKey

default_node = Node()
"""Where the module-level decorators register."""

processor = default_node.processor
criterion = default_node.criterion
schedule = default_node.schedule
function = default_node.function
job = default_node.job
task = default_node.task
task_kind = default_node.task_kind

__all__ = [
    "ONCE",
    "AsyncClient",
    "CallFailed",
    "Caller",
    "Client",
    "ClientCredentials",
    "ClientKey",
    "Conflicting",
    "Context",
    "Entity",
    "Invalid",
    "Job",
    "Missing",
    "Modified",
    "No",
    "Node",
    "NonRetryable",
    "NotAllowed",
    "Problem",
    "Refused",
    "Rejected",
    "RetryLater",
    "RetryPolicy",
    "RunFailed",
    "Schedule",
    "SearchFailed",
    "Task",
    "TaskCall",
    "Tls",
    "TokenUnavailable",
    "TransactionOver",
    "Unavailable",
    "Unreachable",
    "WriteResult",
    "criterion",
    "default_node",
    "function",
    "job",
    "processor",
    "schedule",
    "task",
    "task_kind",
]
