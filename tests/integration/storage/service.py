"""A service reduced to its embedded server, to be killed: commits numbered rows and prints each number once it is
durable.

``python service.py <data directory>``; the first line printed is ``ready``.
"""

import itertools
import sys
from pathlib import Path

import asyncpg
import uvloop

from statewright.storage.embedded import server
from statewright.storage.migrate import StartRefused
from statewright.telemetry import logs


async def main(data_directory: Path) -> None:
    """Write until killed."""
    async with server.run_embedded_server(data_directory) as dsn:
        connection = await asyncpg.connect(dsn)
        await connection.execute("CREATE TABLE IF NOT EXISTS noted (number bigint PRIMARY KEY)")
        start = await connection.fetchval("SELECT coalesce(max(number), 0) + 1 FROM noted")
        for number in itertools.count(start):
            await connection.execute("INSERT INTO noted VALUES ($1)", number)
            print(number, flush=True)  # noqa: T201 - its report


if __name__ == "__main__":
    logs.configure("info", "text", sys.stderr.buffer)
    try:
        uvloop.run(main(Path(sys.argv[1])))
    except StartRefused as refusal:
        sys.exit(str(refusal))
