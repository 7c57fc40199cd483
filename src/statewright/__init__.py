"""Statewright: entities, versioned models and transactional workflows on PostgreSQL.

    from statewright import Client

    with Client("http://localhost:8080") as client:
        prize = client.create("prize", 1, {"category": "physics", "year": 2024})
        client.transition(prize.id, "APPROVE")

The names of the client are loaded when they are first used, so that commands that need none answer at once. Calculation
nodes are written with ``statewright.sdk``, which has the same names.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statewright.sdk import AsyncClient as AsyncClient
    from statewright.sdk import CallFailed as CallFailed
    from statewright.sdk import Client as Client
    from statewright.sdk import ClientCredentials as ClientCredentials
    from statewright.sdk import ClientKey as ClientKey
    from statewright.sdk import Conflicting as Conflicting
    from statewright.sdk import Invalid as Invalid
    from statewright.sdk import Missing as Missing
    from statewright.sdk import Modified as Modified
    from statewright.sdk import NotAllowed as NotAllowed
    from statewright.sdk import Refused as Refused
    from statewright.sdk import RetryPolicy as RetryPolicy
    from statewright.sdk import RunFailed as RunFailed
    from statewright.sdk import SearchFailed as SearchFailed
    from statewright.sdk import Tls as Tls
    from statewright.sdk import TokenUnavailable as TokenUnavailable
    from statewright.sdk import Unavailable as Unavailable
    from statewright.sdk import Unreachable as Unreachable

__all__ = [
    "AsyncClient",
    "CallFailed",
    "Client",
    "ClientCredentials",
    "ClientKey",
    "Conflicting",
    "Invalid",
    "Missing",
    "Modified",
    "NotAllowed",
    "Refused",
    "RetryPolicy",
    "RunFailed",
    "SearchFailed",
    "Tls",
    "TokenUnavailable",
    "Unavailable",
    "Unreachable",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("statewright.sdk"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
