"""Hearing of changed definitions from other processes (PostgreSQL LISTEN)."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.background import repeat
from statewright.ids import ModelId, TenantId
from statewright.storage.connections import DatabaseUrl, connect
from statewright.storage.models import CHANNEL, EVERYTHING

RETRY_INTERVAL: Final = timedelta(seconds=1)

log = logs.logger(__name__)


NotificationHandler = Callable[[str], None]
"""What is done with the payload of an announcement."""


async def follow(
    database: DatabaseUrl,
    forget: Callable[[TenantId, ModelId], None],
    forget_all: Callable[[], None],
    *,
    others: Mapping[str, NotificationHandler] | None = None,
    set_listening: Callable[[bool], None] = lambda _: None,
) -> None:
    """Call ``forget`` for every announced change until cancelled, and who listens to ``others``, by channel;
    ``set_listening`` with whether there is a connection on which they are heard.

    What is announced while there is no connection is lost, so ``forget_all`` is called whenever a connection has been
    made.
    """
    await repeat(
        lambda: _follow_once(database, forget, forget_all, others or {}, set_listening),
        RETRY_INTERVAL,
        log=log,
        failure="announcements_interrupted",
    )


async def _follow_once(
    database: DatabaseUrl,
    forget: Callable[[TenantId, ModelId], None],
    forget_all: Callable[[], None],
    others: Mapping[str, NotificationHandler],
    set_listening: Callable[[bool], None],
) -> None:
    def handle_announcement(_connection: object, _process: int, _channel: str, payload: object) -> None:
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
        await connection.add_listener(CHANNEL, handle_announcement)
        for channel, heard in others.items():
            await connection.add_listener(channel, _build_listener(heard))
        forget_all()
        set_listening(True)
        await lost.wait()
    finally:
        set_listening(False)
        connection.terminate()


def _build_listener(heard: NotificationHandler) -> Callable[[object, int, str, object], None]:
    def handle_notification(_connection: object, _process: int, _channel: str, payload: object) -> None:
        heard(str(payload))

    return handle_notification
