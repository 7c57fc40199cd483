"""How nodes prove to each other that they belong together.

Every call between nodes carries who calls, a number, and an HMAC-SHA256 over both, the method and the node that is
called. The key is derived from the secret that all nodes share and is never sent. A node's id is new for every start,
and each caller counts its calls to each node, so a proof is good once and at one place; no clocks are compared.

What a call says is not covered: whoever can change packets between nodes needs a network of its own (docs/cluster.md).
"""

import hmac
from collections.abc import Iterable
from typing import Final

from statewright.identity import NodeId

CALLER: Final = "statewright-node"
NUMBER: Final = "statewright-call"
PROOF: Final = "statewright-proof"

WINDOW: Final = 4096
"""Calls of one caller may overtake each other by so many."""

MAX_CALLERS: Final = 1000
"""Nodes, dead ones included, whose calls are remembered; the ones heard of first are forgotten first."""

Metadata = tuple[tuple[str, str], ...]


class Prover:
    """Signs the calls of this node and checks those of others. ``secret`` is that of the cluster."""

    def __init__(self, secret: bytes, node: NodeId) -> None:
        self._key = hmac.digest(secret, b"statewright channel between nodes", "sha256")
        self._node = node
        self._sent: dict[NodeId, int] = {}
        self._seen: dict[NodeId, Seen] = {}

    def sign(self, called: NodeId, method: str) -> Metadata:
        """What a call of ``method`` on the node ``called`` must carry."""
        number = self._sent[called] = self._sent.get(called, 0) + 1
        proof = self._proof(self._node, called, method, number)
        return (CALLER, self._node), (NUMBER, str(number)), (PROOF, proof)

    def accepts(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
        """Whether a call comes from a node of this cluster, is meant for this node, and comes for the first time."""
        given = {key: value for key, value in metadata if isinstance(value, str)}
        caller, text = NodeId(given.get(CALLER, "")), given.get(NUMBER, "")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            return False
        expected = self._proof(caller, self._node, method, int(text))
        if not hmac.compare_digest(given.get(PROOF, "").encode(), expected.encode()):
            return False
        if caller not in self._seen and len(self._seen) >= MAX_CALLERS:
            del self._seen[next(iter(self._seen))]
        return self._seen.setdefault(caller, Seen()).is_new(int(text))

    def _proof(self, caller: NodeId, called: NodeId, method: str, number: int) -> str:
        text = "\0".join((caller, called, method, str(number)))
        return hmac.digest(self._key, text.encode(), "sha256").hex()


class Seen:
    """The numbers of one caller's calls."""

    def __init__(self) -> None:
        self._highest = 0
        self._recent: set[int] = set()

    def is_new(self, number: int) -> bool:
        """Whether the number comes for the first time; one that is too old to tell counts as repeated."""
        if number <= self._highest - WINDOW or number in self._recent:
            return False
        self._recent.add(number)
        self._highest = max(self._highest, number)
        if len(self._recent) > 2 * WINDOW:
            self._recent = {seen for seen in self._recent if seen > self._highest - WINDOW}
        return True
