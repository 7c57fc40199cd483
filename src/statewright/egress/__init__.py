"""The one way in which the service calls others, by HTTP or as brokers know it (docs/reference/egress.md).

The URLs that it calls are written by tenants and by servers of strangers. So a call goes where the policy permits and
nowhere else: scheme, port and name of a URL are checked, its name is resolved once, every address it has is checked,
and the connection is made to an address that was. That holds for each hop of a redirect, and redirects are followed
only where a request says how many. Time, sizes and the number of calls are limited. What goes wrong is a value,
:class:`HttpFailure`, not an exception, and no text of it holds anything of the request but the name of the host.

Brokers of messages are reached likewise: their clients (``egress/kafka.py``, ``egress/nats.py``) get sockets that are
connected with addresses that were checked, also of servers that a broker names.

Nothing else in the service opens an HTTP connection of its own, or one to a broker.
"""

from statewright.egress.client import Egress
from statewright.egress.policy import (
    Address,
    EgressLimits,
    EgressPolicy,
    FailureReason,
    HttpFailure,
    HttpRequest,
    HttpResponse,
)

__all__ = [
    "Address",
    "Egress",
    "EgressLimits",
    "EgressPolicy",
    "FailureReason",
    "HttpFailure",
    "HttpRequest",
    "HttpResponse",
]
