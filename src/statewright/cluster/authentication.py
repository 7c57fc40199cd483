"""How nodes prove to each other that they belong together.

Every call between nodes carries who calls, a number, and an HMAC-SHA256 over both, the method and the node that is
called. The key is derived from the secret that all nodes share and is never sent. A node's id is new for every start,
and each caller counts its calls to each node, so a proof is good once and at one place; no clocks are compared.

The content of a call is not covered: where others could change packets between nodes, these need a network of their own
(docs/cluster.md).
"""

import hmac
from collections.abc import Iterable
from typing import Final

from statewright.ids import NodeId

CALLER_KEY: Final = "statewright-node"
NUMBER_KEY: Final = "statewright-call"
PROOF_KEY: Final = "statewright-proof"

REPLAY_WINDOW_SIZE: Final = 4096
"""Calls of one caller may overtake each other by so many."""

MAX_CALLERS: Final = 1000
"""Nodes, dead ones included, whose calls are remembered; the ones heard of first are forgotten first."""

Metadata = tuple[tuple[str, str], ...]


class NodeAuthenticator:
    """Signs the calls of this node and checks those of others. ``secret`` is that of the cluster."""

    def __init__(self, secret: bytes, node: NodeId) -> None:
        self._key = hmac.digest(secret, b"statewright channel between nodes", "sha256")
        self._node = node
        self._sent: dict[NodeId, int] = {}
        self._replay_windows: dict[NodeId, ReplayWindow] = {}

    def sign(self, called: NodeId, method: str) -> Metadata:
        """What a call of ``method`` on the node ``called`` must carry."""
        number = self._sent[called] = self._sent.get(called, 0) + 1
        proof = self._compute_proof(self._node, called, method, number)
        return (CALLER_KEY, self._node), (NUMBER_KEY, str(number)), (PROOF_KEY, proof)

    def accepts(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
        """Whether a call comes from a node of this cluster, is meant for this node, and comes for the first time."""
        given = {key: value for key, value in metadata if isinstance(value, str)}
        caller, text = NodeId(given.get(CALLER_KEY, "")), given.get(NUMBER_KEY, "")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            return False
        expected = self._compute_proof(caller, self._node, method, int(text))
        if not hmac.compare_digest(given.get(PROOF_KEY, "").encode(), expected.encode()):
            return False
        if caller not in self._replay_windows and len(self._replay_windows) >= MAX_CALLERS:
            del self._replay_windows[next(iter(self._replay_windows))]
        return self._replay_windows.setdefault(caller, ReplayWindow()).is_new(int(text))

    def _compute_proof(self, caller: NodeId, called: NodeId, method: str, number: int) -> str:
        text = "\0".join((caller, called, method, str(number)))
        return hmac.digest(self._key, text.encode(), "sha256").hex()


class ReplayWindow:
    """The numbers of one caller's calls."""

    def __init__(self) -> None:
        self._highest = 0
        self._recent: set[int] = set()

    def is_new(self, number: int) -> bool:
        """Whether the number comes for the first time; one that is too old to tell counts as repeated."""
        if number <= self._highest - REPLAY_WINDOW_SIZE or number in self._recent:
            return False
        self._recent.add(number)
        self._highest = max(self._highest, number)
        if len(self._recent) > 2 * REPLAY_WINDOW_SIZE:
            self._recent = {seen for seen in self._recent if seen > self._highest - REPLAY_WINDOW_SIZE}
        return True
