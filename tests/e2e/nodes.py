"""Several nodes on one database that are killed and started again, each at its own addresses."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.database import connected
from tests.e2e.program import Program, free_ports, started


class Nodes:
    """The nodes, by number; ``settings`` are those of all."""

    def __init__(self, home: Path, count: int, settings: dict[str, str]) -> None:
        self._home = home
        self._settings = settings
        self._lives = [ExitStack() for _ in range(count)]
        self._ports = [free_ports("HTTP", "GRPC", "ADMIN") for _ in range(count)]
        self.programs = [self._start(n) for n in range(count)]

    def _start(self, n: int) -> Program:
        return self._lives[n].enter_context(started(self._home, ports=self._ports[n], **self._settings)).ready()

    def kill(self, n: int) -> None:
        """End one without a word, and start it again."""
        self.programs[n].kill()
        self._lives[n].close()
        self.programs[n] = self._start(n)

    def close(self) -> None:
        """End all of them."""
        for life in self._lives:
            life.close()


@contextmanager
def run_nodes(home: Path, count: int, **settings: str) -> Iterator[Nodes]:
    """Nodes that are there inside the block."""
    nodes = Nodes(home, count, settings)
    try:
        yield nodes
    finally:
        nodes.close()


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    """The rows of a statement, on a connection of its own."""

    async def fetch() -> list[tuple[object, ...]]:
        async with connected(url) as connection:
            return [tuple(row) for row in await connection.fetch(statement)]

    return asyncio.run(fetch())
