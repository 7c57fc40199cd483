"""Writes ``tests/data/upgrades/COMMIT.sql.xz`` and ``.json.xz``: a database that the program of a commit has filled,
and everything that can be read of it as that program answers it. A release adds one:

    python -m scripts.make_upgrade_dump COMMIT

Needs the sources of the commit in the history of git; the packages are those that are installed here.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from statewright.storage.embedded.data_directory import find_program
from tests.database import Run, temporary_database
from tests.e2e.program import started
from tests.upgrades.earlier import unpack_sources, write_dump
from tests.upgrades.filling import fill
from tests.upgrades.reading import read_everything

LEFT_OUT = ("\\restrict", "\\unrestrict", "-- Dumped", "SET transaction_timeout")
"""Lines that differ each time, or that older servers do not know."""


async def make_dump(commit: str, directory: Path, server: str) -> None:
    program = unpack_sources(commit, directory)
    async with temporary_database(server) as database:
        with started(directory, "serve", executable=program, POSTGRES_URL=database) as running:
            api, v1 = running.ready().api(), running.api(context_path="")
            known = fill(api, v1)
            answers = read_everything(api, v1, known)
            if running.terminate() != 0:
                raise SystemExit(running.log)
        write_dump(commit, dump(database), {"known": known, "answers": answers})


def dump(database: str) -> bytes:
    """The database as SQL that any client can run."""
    pg_dump = str(find_program("pg_dump"))
    options = ("--inserts", "--rows-per-insert=200", "--no-owner", "--no-privileges")
    command = [pg_dump, *options, database]
    written = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603  # of the wheel
    return "".join(line for line in written.splitlines(keepends=True) if not line.startswith(LEFT_OUT)).encode()


def main() -> None:
    [commit] = sys.argv[1:]
    run = Run.begin()
    try:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(make_dump(commit, Path(directory), run.server()))
    finally:
        run.end()


if __name__ == "__main__":
    main()
