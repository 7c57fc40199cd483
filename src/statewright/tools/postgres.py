"""Tasks of the kind ``postgres``: statements in a database that the playbook names, which is none of ours."""

import asyncio
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.tools.sql import Statement, StatementResult, encode_results, read_statements
from statewright.tools.tasks import Unfit, get_first, refuse_fields

CONNECT_S: Final = 10.0
_MANAGES_ITSELF: Final = ("BEGIN", "START", "COMMIT", "ROLLBACK", "VACUUM", "CREATE DATABASE", "DROP DATABASE")
"""Statements that one transaction around them all would be in the way of."""

_RETRYABLE_CLASSES: Final = ("08", "40", "53", "57")
"""Of SQLSTATE: connections lost or refused, serialization failures and deadlocks, lack of resources, shutdowns."""

_DSN: Final = ("dsn", "url", "uri", "connection_string", "connection")
_PARTS: Final = {
    "host": ("host", "db_host", "hostname"),
    "port": ("port", "db_port"),
    "user": ("user", "username", "db_user"),
    "password": ("password", "db_password"),
    "database": ("database", "dbname", "db_name", "db_database"),
}
"""What public playbooks and credentials call the parts of an address."""

_TEXT_TYPES: Final[dict[str, Callable[[str], object]]] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid", "inet", "cidr", "xml"), str),
    **dict.fromkeys(("date", "time", "timetz", "timestamp", "timestamptz", "interval"), str),
    **dict.fromkeys(("int2", "int4", "int8", "oid"), int),
    **dict.fromkeys(("float4", "float8"), float),
    **dict.fromkeys(("json", "jsonb"), json.loads),
    "numeric": Decimal,
    "bool": lambda text: text == "t",
}
"""Types whose values go as text in both directions, so that PostgreSQL reads the parameters of a playbook as it reads
literals, and what it writes is kept; and what is made of the text of a result.
"""


def run_statements(fields: JsonObject, credentials: JsonObject) -> bytes:
    """What the statements returned, as JSON. Several are one transaction, unless they manage their own.

    Raises :class:`Unfit`.
    """
    return asyncio.run(_run(read_statements(fields), _find_address(fields, credentials)))


async def _run(statements: Sequence[Statement], address: JsonObject) -> bytes:
    connection = await _connect(address)
    try:
        for name, read in _TEXT_TYPES.items():
            await connection.set_type_codec(name, schema="pg_catalog", encoder=_write, decoder=read, format="text")
        if len(statements) == 1 or any(one.text.upper().startswith(_MANAGES_ITSELF) for one in statements):
            return encode_results([await _execute(connection, one) for one in statements])
        async with connection.transaction():
            return encode_results([await _execute(connection, one) for one in statements])
    except asyncpg.PostgresError as error:
        raise _name_failure(error) from error
    except (asyncpg.InterfaceError, OSError) as error:
        raise Unfit("SQL_FAILED", str(error)) from error
    finally:
        connection.terminate()


async def _connect(address: JsonObject) -> "asyncpg.Connection[asyncpg.Record]":
    """Raises :class:`Unfit`, with the host in its message and nothing else of the address."""
    dsn, port = address.get("dsn"), address.get("port")
    host, user, password, database = (_get_text(address, name) for name in ("host", "user", "password", "database"))
    try:
        return await asyncpg.connect(
            dsn if isinstance(dsn, str) else None,
            host=host,
            port=int(port) if isinstance(port, int | str) else None,
            user=user,
            password=password,
            database=database,
            timeout=CONNECT_S,
        )
    except asyncpg.PostgresError as error:
        raise _name_failure(error) from error
    except (OSError, TimeoutError, asyncpg.InterfaceError) as error:
        where = host or urlsplit(str(dsn)).hostname or "its address"
        message = f"the database at {where} cannot be reached: {type(error).__name__}"
        raise Unfit("DATABASE_UNREACHABLE", message, retryable=True) from error
    except ValueError:
        raise refuse_fields("auth must have a usable address of a database") from None  # the cause may quote it


def _get_text(address: JsonObject, name: str) -> str | None:
    value = address.get(name)
    return None if value is None else str(value)


async def _execute(connection: "asyncpg.Connection[asyncpg.Record]", statement: Statement) -> StatementResult:
    prepared = await connection.prepare(statement.text)
    rows = await prepared.fetch(*statement.values)
    columns = [attribute.name for attribute in prepared.get_attributes()]
    touched = (prepared.get_statusmsg() or "0").split()[-1]
    count = len(rows) if columns else int(touched) if touched.isdecimal() else 0
    return StatementResult(rows=[dict(row.items()) for row in rows], row_count=count, columns=columns)


def _write(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)


def _name_failure(error: asyncpg.PostgresError) -> Unfit:
    state = error.sqlstate or ""
    return Unfit(f"SQL_{state}", f"{error.message or error}", retryable=state[:2] in _RETRYABLE_CLASSES)


def _find_address(fields: JsonObject, credentials: JsonObject) -> JsonObject:
    """The parts of the address, from ``auth`` and, before it, from the fields of the task."""
    return _read_address(_find_credential(fields.get("auth"), credentials)) | _read_address(fields)


def _find_credential(auth: JsonValue, credentials: JsonObject) -> JsonObject:
    """What ``auth`` is or names: a credential, the address itself, or a mapping of one of these."""
    if auth is None:
        return {}
    if isinstance(auth, str):
        if "://" in auth:
            return {"dsn": auth}
        if auth not in credentials:
            raise Unfit("CREDENTIAL_MISSING", f"auth: neither the keychain of the playbook nor the worker has {auth}")
        found = credentials[auth]
        return _find_inner(found) if isinstance(found, dict) else {"dsn": found}
    if not isinstance(auth, dict):
        raise refuse_fields("auth must be the name of a credential, or a mapping")
    named = next((auth[name] for name in ("credential", "key", "name") if isinstance(auth.get(name), str)), None)
    if isinstance(named, str) and not _read_address(auth):
        return _find_credential(named, credentials)
    inner = [one for one in auth.values() if isinstance(one, dict | str)]
    return _find_credential(inner[0], credentials) if len(auth) == 1 and not _read_address(auth) else _find_inner(auth)


def _find_inner(credential: JsonObject) -> JsonObject:
    """Credentials may have what they are in ``data``."""
    data = credential.get("data")
    return data if isinstance(data, dict) else credential


def _read_address(given: JsonObject) -> JsonObject:
    name, dsn = get_first(given, *_DSN)
    if dsn is not None and not isinstance(dsn, str):
        raise refuse_fields(f"{name} must be the address of a database")
    parts: JsonObject = {} if dsn is None else {"dsn": dsn}
    for part, names in _PARTS.items():
        if (found := get_first(given, *names)[1]) is not None:
            parts[part] = found
    return parts
