"""Tasks of the kind ``duckdb``: statements in a database in memory, or in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from statewright.jsonval.values import JsonObject
from statewright.tools.sql import Statement, StatementResult, encode_results, read_statements
from statewright.tools.tasks import TaskRequest, Unfit, refuse_fields

IN_MEMORY: Final = ":memory:"
_MEMORY_SHARE: Final = 0.6
"""Of the memory of the task: beside what DuckDB counts it needs stacks, and Python."""


def run_statements(fields: JsonObject, request: TaskRequest) -> bytes:
    """What the statements returned, as JSON. Raises :class:`Unfit`."""
    statements = read_statements(fields)
    connection = _open(fields.get("database"), request)
    try:
        return encode_results([_execute(connection, one) for one in statements])
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except duckdb.Error as error:
        raise Unfit("SQL_FAILED", str(error)) from error
    finally:
        connection.close()


def _open(given: object, request: TaskRequest) -> duckdb.DuckDBPyConnection:
    """A connection that reads and writes what the worker permits, and nothing else."""
    if given is not None and not isinstance(given, str):
        raise refuse_fields("database must be the path of a file")
    here = str(Path.cwd())
    permitted = (here, *request.directories)
    database = given if given and given != IN_MEMORY else None
    path = IN_MEMORY if database is None else str((Path(permitted[-1]) / database).resolve())
    if not request.is_open and path != IN_MEMORY and not any(Path(path).is_relative_to(one) for one in permitted):
        raise refuse_fields("database must be below a directory of --files of the worker")
    memory = int(request.limits.memory_mib * _MEMORY_SHARE)
    try:
        connection = duckdb.connect(path, config={"memory_limit": f"{memory}MiB", "threads": 2, "temp_directory": here})
    except duckdb.Error as error:
        raise Unfit("SQL_FAILED", str(error), retryable=isinstance(error, duckdb.IOException)) from error
    if not request.is_open:
        connection.execute("SET allowed_directories = ?", [[_name_folder(one) for one in permitted]])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    return connection


def _name_folder(path: str) -> str:
    return f"{path.rstrip('/')}/"


def _execute(connection: duckdb.DuckDBPyConnection, statement: Statement) -> StatementResult:
    cursor = connection.execute(statement.text, list(statement.values))
    columns: Sequence[str] = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()] if columns else []
    return StatementResult(rows=rows, row_count=_count(columns, rows), columns=columns)


def _count(columns: Sequence[str], rows: Sequence[dict[str, object]]) -> int:
    """Statements that write return the number of rows as their only row."""
    touched = rows[0].get("Count") if list(columns) == ["Count"] and len(rows) == 1 else None
    return touched if isinstance(touched, int) else len(rows)
