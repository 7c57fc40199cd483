"""What a process knows to be idle: topics without a job that could be claimed, so that an empty poll costs no statement
(docs/reference/steps.md#polls-that-find-nothing).

A claim that came back with fewer jobs than it asked for has proved that there are no more of its types. That stays true
until a job is made or set free, and every process tells every other when that happens: at once here, by NOTIFY
elsewhere. So the proof is kept until something is heard of the topic. Three things could make it wrong:

* A hint is heard while the claim is under way, whose snapshot may be older than the job. Such a claim proves nothing.
* A hint is lost: its sender died between commit and notification, a connection hangs. So a proof counts for
  ``MAX_AGE_US`` from the beginning of its claim, no longer.
* Nothing is heard at all, because there is no connection to listen on. Then nothing is known.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from statewright.ids import Clock, TenantId
from statewright.lru import LruCache

Topic = tuple[TenantId, str, str]
"""A tenant, a language and a job type."""

ANY_TYPE: Final = ""
"""Stands for all job types in a hint; no job has it as its type."""

MAX_AGE_US: Final = 1_000_000
"""How long a proof counts: the longest that a job whose announcement was lost stays unseen by polls."""

MAX_TOPICS: Final = 20_000


class Look:
    """One claim that is under way."""

    __slots__ = ("began", "topics")

    def __init__(self, topics: Iterable[Topic], began: int) -> None:
        self.topics = set(topics)
        """Those of which nothing was heard since it began."""
        self.began = began


class IdleTopics:
    """The topics of which this process knows that there is nothing to claim."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._proven: LruCache[Topic, int] = LruCache(MAX_TOPICS)
        self._looks: set[Look] = set()
        self._is_listening = False

    def set_listening(self, is_listening: bool) -> None:
        """Whether announcements of other processes arrive from now on; what was known before counts no more."""
        self._is_listening = is_listening
        self.forget_all()

    def are_idle(self, topics: Sequence[Topic]) -> bool:
        """Whether a claim of these topics would find nothing."""
        now = self._clock()
        return all(self._is_idle(topic, now) for topic in topics)

    @contextmanager
    def look(self, topics: Sequence[Topic]) -> Iterator[Look]:
        """While the block runs, a claim of the topics does; give ``prove`` the look when it found all there was."""
        look = Look(topics, self._clock())
        self._looks.add(look)
        try:
            yield look
        finally:
            self._looks.discard(look)

    def prove(self, look: Look) -> None:
        """The claim has left nothing of its topics."""
        if self._is_listening:
            for topic in look.topics:
                self._proven.put(topic, look.began)

    def forget(self, topics: Iterable[Topic]) -> None:
        """There may be jobs of these topics."""
        for topic in topics:
            if topic[2] == ANY_TYPE:
                self.forget_all()
                return
            self._proven.discard(topic)
            for look in self._looks:
                look.topics.discard(topic)

    def forget_all(self) -> None:
        """There may be jobs of any topic."""
        self._proven.clear()
        for look in self._looks:
            look.topics.clear()

    def _is_idle(self, topic: Topic, now: int) -> bool:
        proven = self._proven.get(topic)
        return proven is not None and 0 <= now - proven < MAX_AGE_US
