"""What a connection asks of its server."""

from typing import Protocol

import grpc

from statewright.rpc.call import Call
from statewright.rpc.http2 import Limits
from statewright.rpc.incidents import Incidents
from statewright.rpc.memory import MemoryBudget
from statewright.rpc.turns import FairTurns


class Connected(Protocol):
    """What a server asks of a connection."""

    peer: str

    def review(self, now: float) -> None:
        """End what takes too long; ``now`` is the loop's time."""
        ...

    def begin_goaway(self) -> None:
        """Ask the client to go."""
        ...

    def terminate(self, code: grpc.StatusCode, text: str) -> None:
        """End all calls with a status, and close."""
        ...

    def abort(self) -> None:
        """Drop the connection."""
        ...


class CallServer(Protocol):
    """Who answers calls."""

    limits: Limits
    memory: MemoryBudget
    incidents: Incidents
    turns: FairTurns

    def add_connection(self, connection: Connected) -> None:
        """A client has connected."""
        ...

    def welcome_connection(self, connection: Connected) -> None:
        """It has made its first call that was let in."""
        ...

    def remove_connection(self, connection: Connected) -> None:
        """It has gone."""
        ...

    def start_call(self, call: Call, peer: str) -> None:
        """Has the call answered. Raises :class:`CallRefused`."""
        ...
