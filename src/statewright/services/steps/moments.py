"""When things happen to instances, and the ids they may use (``statewright.net.identifiers``)."""

import secrets
from typing import Final

from statewright.identity import Clock
from statewright.net import Moment

_MILLISECOND_SHIFT: Final = 80
_SEQUENCE_SHIFT: Final = 64
_SEQUENCES: Final = 1 << 16
_NODE_SHIFT: Final = 32


class Moments:
    """Moments of this process. Their ids rise, also within a millisecond.

    An id is 48 bits of milliseconds, 16 of a sequence within the millisecond, 32 that tell processes apart, and 32 for
    what one moment creates.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._node = secrets.randbits(32)
        self._last = 0
        """Milliseconds and sequence of the last moment, as one number."""

    def __call__(self) -> Moment:
        at = self._clock()
        self._last = max(self._last + 1, (at // 1000) * _SEQUENCES)
        milliseconds, sequence = divmod(self._last, _SEQUENCES)
        first = milliseconds << _MILLISECOND_SHIFT | sequence << _SEQUENCE_SHIFT | self._node << _NODE_SHIFT
        return Moment(at=at, first_id=first)
