"""A database that answers, and cannot write: operators see it, and balancers send requests elsewhere
(docs/guides/postgresql.md#when-it-stands-still).
"""

import asyncio
import re
from pathlib import Path
from urllib.parse import urlsplit

from tests.builders import SAMPLE
from tests.database import connected
from tests.e2e.program import Program, started
from tests.service import Api, eventually, refused

BREAK = """
    CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'could not extend file "base/5/16384": No space left on device'
              USING ERRCODE = '53100', DETAIL = 'the secret document';
    END $$;
    CREATE TRIGGER break BEFORE INSERT ON entity FOR EACH ROW EXECUTE FUNCTION break();
"""


def run(database: str, statements: str) -> None:
    """Carry out statements behind the service's back."""

    async def execute() -> None:
        async with connected(database) as connection:
            await connection.execute(statements)

    asyncio.run(execute())


def is_ready(program: Program) -> bool:
    return program.admin.get("/readyz").status_code == 200


def count_failures(program: Program, kind: str) -> float:
    found = re.search(rf'statewright_storage_failures_total{{kind="{kind}"}} (\S+)', program.admin.get("/metrics").text)
    return float(found[1]) if found else 0.0


def is_read_only(program: Program, api: Api) -> bool:
    """Whether a write was refused since the database takes none, not since its session was ended."""
    refused(api.post("/entity/JSON/prize/1", SAMPLE), 503, "STORAGE_UNAVAILABLE")
    return count_failures(program, "read_only") >= 1


def test_a_full_disk_is_named_in_the_log_and_counted(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database) as program:
        api = program.ready().api()
        api.a_model()
        run(database, BREAK)
        for _ in range(30):
            refused(api.post("/entity/JSON/prize/1", SAMPLE), 503, "STORAGE_UNAVAILABLE")
        assert count_failures(program, "resources") >= 30
        told = [line for line in program.log.splitlines() if "storage_failed" in line and "sqlstate=53100" in line]
        assert 1 <= len(told) < 30
        assert "level=ERROR" in told[0]
        assert "No space left on device" in told[0]
        assert "secret" not in program.log
        run(database, "DROP TRIGGER break ON entity")
        api.create()
        eventually(lambda: is_ready(program))


def test_a_database_that_takes_no_writes_makes_the_service_not_ready(tmp_path: Path, database: str) -> None:
    name = urlsplit(database).path[1:]
    with started(tmp_path, POSTGRES_URL=database) as program:
        api = program.ready().api()
        api.a_model()
        run(database, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on; {END_ALL}')
        eventually(lambda: not is_ready(program))  # perhaps since its sessions were ended
        eventually(lambda: is_read_only(program, api))
        assert not is_ready(program)
        assert "sqlstate=25006" in program.log
        run(database, f'SET transaction_read_only = off; ALTER DATABASE "{name}" RESET default_transaction_read_only')
        eventually(lambda: is_ready(program))
        api.create()


END_ALL = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
