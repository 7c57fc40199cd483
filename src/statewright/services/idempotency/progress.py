"""How far an attempt at a request with a key has come: what is stored of it, and what may follow.

What may happen to an attempt stands in ``MOVES``; nothing else does. Read by rows:

- of an attempt of which nothing is stored a claim may be stored; or it takes over that of an earlier one, with the
  chunks that are durable;
- what is durable of an effect, segments of a run or chunks of a collection, is never given back: such an attempt goes
  on, comes to an answer, or is given up, but does not begin again;
- an answer is the end. It may be amended as long as no client was told.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.operations.idempotency import StoredAnswer

Stored: TypeAlias = Literal["nothing", "claim", "segment", "chunk", "answer"]
"""The last that was stored of an attempt."""
Move: TypeAlias = Literal["claim", "take claim", "take chunks", "segment", "chunk", "answer", "amend", "restart"]

MOVES: Final[Mapping[Stored, Mapping[Move, Stored]]] = {
    "nothing": {
        "claim": "claim",
        "take claim": "claim",
        "take chunks": "chunk",
        "segment": "segment",
        "chunk": "chunk",
        "answer": "answer",
        "restart": "nothing",
    },
    "claim": {"segment": "segment", "chunk": "chunk", "answer": "answer", "restart": "nothing"},
    "segment": {"segment": "segment", "chunk": "chunk", "answer": "answer"},
    "chunk": {"segment": "segment", "chunk": "chunk", "answer": "answer"},
    "answer": {"amend": "answer"},
}


class IllegalMove(Exception):
    """A defect: what was stored of an attempt does not allow this."""


class Progress(Struct, frozen=True):
    """What is stored of an attempt. ``elements`` tell what became of the chunks of a collection, those of earlier
    attempts included; ``answer`` is None until it is stored.
    """

    stored: Stored = "nothing"
    elements: tuple[str, ...] = ()
    answer: StoredAnswer | None = None

    @property
    def is_claimed(self) -> bool:
        """Whether something is stored, so that each further write demands the token of the attempt."""
        return self.stored != "nothing"

    @property
    def is_partly_durable(self) -> bool:
        """Whether something of the effect is durable, and no answer."""
        return self.stored in {"segment", "chunk"}

    def claim(self) -> "Progress":
        """A claim was stored."""
        return self._move("claim")

    def resume(self, elements: tuple[str, ...]) -> "Progress":
        """The claim of an earlier attempt was taken over, of which these chunks are durable."""
        return replace(self._move("take chunks" if elements else "take claim"), elements=elements)

    def add_segment(self) -> "Progress":
        """A segment of a run was committed."""
        return self._move("segment")

    def add_chunk(self, element: str) -> "Progress":
        """A chunk of a collection was committed that is not the last one."""
        return replace(self._move("chunk"), elements=(*self.elements, element))

    def finish(self, answer: StoredAnswer) -> "Progress":
        """The answer was stored."""
        return Progress(self._follow("answer"), self.elements, answer)

    def amend(self, answer: StoredAnswer) -> "Progress":
        """Another answer was stored in its place."""
        return replace(self._move("amend"), answer=answer)

    def restart(self) -> "Progress":
        """The attempt begins again: another was faster."""
        self._move("restart")
        return Progress()

    def _move(self, move: Move) -> "Progress":
        return replace(self, stored=self._follow(move))

    def _follow(self, move: Move) -> Stored:
        after = MOVES[self.stored].get(move)
        if after is None:
            raise IllegalMove(f"{move} where {self.stored} is stored")
        return after
