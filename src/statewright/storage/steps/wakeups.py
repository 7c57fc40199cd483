"""Telling other processes of new jobs.

Never by the transaction that makes a job: ``NOTIFY`` takes a lock of the whole server until its transaction ends, which
costs three quarters of the throughput (design/performance.md §6). One notification a while later, for all jobs that
were made meanwhile, costs nothing.
"""

from collections.abc import Callable, Iterable

import msgspec

from statewright.identity import TenantId
from statewright.storage.pool import Pool
from statewright.storage.steps.jobs import Topic

CHANNEL = "statewright_jobs"
"""Payload: a JSON list of pairs of tenant and job type."""

MAX_PAYLOAD = 7900
"""Bytes; PostgreSQL refuses a notification of 8000 or more."""

NOTIFY = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"

_decode = msgspec.json.Decoder(list[tuple[str, str]]).decode


async def notify(pool: Pool, topics: Iterable[Topic]) -> None:
    """Tell all processes that there may be jobs of these tenants and types."""
    async with pool.connection() as connection:
        await connection.execute(NOTIFY, CHANNEL, payloads(topics))


def payloads(topics: Iterable[Topic]) -> list[str]:
    """The topics as few notifications; one that does not fit into any is left to the polls of its listeners."""
    texts: list[str] = []
    part: list[bytes] = []
    for topic in sorted(topics):
        item = msgspec.json.encode(topic)
        if len(item) + 2 > MAX_PAYLOAD:
            continue
        if part and sum(map(len, part)) + len(part) + len(item) + 2 > MAX_PAYLOAD:
            texts.append(_list(part))
            part = []
        part.append(item)
    return [*texts, _list(part)] if part else texts


def hearing(wake: Callable[[Iterable[Topic]], None]) -> Callable[[str], None]:
    """What to do with a notification: ``wake`` who waits for what it names."""

    def heard(payload: str) -> None:
        wake([(TenantId(tenant), job_type) for tenant, job_type in _decode(payload)])

    return heard


def _list(items: list[bytes]) -> str:
    return f"[{b','.join(items).decode()}]"
