"""Hearing of changed definitions from other processes (PostgreSQL LISTEN)."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from statewright.identity import ModelId, TenantId
from statewright.storage.connections import Target, connect
from statewright.storage.models import CHANNEL, EVERYTHING

RETRY_AFTER_S = 1.0

log = structlog.get_logger(__name__)


Heard = Callable[[str], None]
"""What is done with the payload of an announcement."""


async def follow(
    database: Target,
    forget: Callable[[TenantId, ModelId], None],
    forget_all: Callable[[], None],
    *,
    others: Mapping[str, Heard] | None = None,
) -> None:
    """Call ``forget`` for every announced change until cancelled, and who listens to ``others``, by channel.

    What is announced while there is no connection is lost, so ``forget_all`` is called whenever a connection has been
    made.
    """
    while True:
        try:
            await _follow_once(database, forget, forget_all, others or {})
        except Exception as away:  # a background loop must outlive whatever becomes of one connection
            log.warning("announcements_interrupted", error=repr(away))
        await asyncio.sleep(RETRY_AFTER_S)


async def _follow_once(
    database: Target,
    forget: Callable[[TenantId, ModelId], None],
    forget_all: Callable[[], None],
    others: Mapping[str, Heard],
) -> None:
    def announced(_connection: object, _process: int, _channel: str, payload: object) -> None:
        scope = str(payload)
        if scope == EVERYTHING:
            forget_all()
            return
        tenant, _, model = scope.rpartition("/")
        forget(TenantId(tenant), ModelId(model))

    lost = asyncio.Event()
    connection = await connect(database)
    try:
        connection.add_termination_listener(lambda _connection: lost.set())
        await connection.add_listener(CHANNEL, announced)
        for channel, heard in others.items():
            await connection.add_listener(channel, _telling(heard))
        forget_all()
        await lost.wait()
    finally:
        connection.terminate()


def _telling(heard: Heard) -> Callable[[object, int, str, object], None]:
    def announced(_connection: object, _process: int, _channel: str, payload: object) -> None:
        heard(str(payload))

    return announced
