"""Nodes that take work and say no more."""

from typing import TypeVar

from statewright.storage import takings
from statewright.storage.pool import Pool
from statewright.storage.takings import Look, Parked
from statewright.storage.work import Work

R = TypeVar("R")


async def take(pool: Pool, work: Work[R], *arguments: object, now: int, until: int, limit: int = 9) -> list[R]:
    """What is due, as a node takes it that then dies; without what is parked then."""
    look = Look(now=now, until=until, taker=f"{now} node-{until} (test)", arguments=arguments)
    taken, _ = await takings.take(pool, work, look, limit=limit)
    while (suspect := await takings.take_suspect(pool, work, look, report=lambda _: None)) is not None:
        if not isinstance(suspect, Parked):
            taken.append(suspect)
    return taken
