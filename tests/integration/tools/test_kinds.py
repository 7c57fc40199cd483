"""What the kinds of tasks of tools take and return (docs/guides/tools.md#kinds)."""

import asyncio
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest

from statewright.playbooks.policies import Outcome
from statewright.sdk import Node, TaskCall
from statewright.sdk.jobs import DaemonThreadPool
from statewright.tools.requests import AddressRefused, GuardedTransport
from statewright.tools.tasks import KINDS, TaskLimits, TaskRequest
from statewright.tools.worker import ToolSettings, build_node, choose_environment, run_in_process
from tests.database import connected
from tests.integration.tools.test_limits import do, get_failure, read


async def test_python_calls_main_with_the_arguments_that_it_takes() -> None:
    code = "def main(name, times=2, *, end='!'):\n    print('not in the result')\n    return name * times + end"
    assert read(await do("python", code=code, args={"name": "a", "unused": 1}, input={"end": "."})) == "aa."


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("result = {'x': x * 1.5}", {"x": 3.0}),
        ("async def main(input_data):\n    return input_data", {"x": 2}),
        ("def main(**all):\n    return sorted(all)", ["x"]),
        ("def main():\n    return datetime.date(2026, 1, 2), decimal.Decimal('0.10')", ["2026-01-02", 0.1]),
        ("x + 1", None),
    ],
)
async def test_code_of_the_usual_forms(code: str, result: Any) -> None:
    libraries = {"datetime": "datetime", "decimal": None}
    assert read(await do("python", code=code, args={"x": 2}, libs=libraries)) == result


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"code": "x = 1\nraise ValueError('no city')"}, "PYTHON_ERROR", "ValueError: no city (line 2 of code)"),
        ({"code": "x ="}, "PYTHON_ERROR", "SyntaxError: invalid syntax (line 1 of code)"),
        ({"code": "exit(3)"}, "PYTHON_ERROR", "SystemExit: 3 (line 1 of code)"),
        ({"code": "import os; os._exit(3)"}, "EXIT_3", "the task ended with exit code 3"),
        ({"code": "import os; os.kill(os.getpid(), 9)"}, "KILLED", "the task was ended by SIGKILL"),
        ({"code": "result = object()"}, "PYTHON_ERROR", "TypeError: the result is no JSON: it has a object"),
        ({"code": "def main(city): pass"}, "BAD_FIELDS", "args must have city, which main takes"),
        ({"code": ""}, "BAD_FIELDS", "code must be the text of a program in Python"),
        ({"code": "1", "args": [1]}, "BAD_FIELDS", "args must be a mapping of arguments"),
    ],
)
async def test_failures_of_python_say_what_and_where(fields: Any, code: str, message: str) -> None:
    failure = get_failure(await do("python", **fields))
    assert (failure.code, failure.message) == (code, message)


async def test_the_shell_runs_commands_until_one_fails() -> None:
    done = await do("shell", cmds=["echo $NAME", "printf oops 1>&2"], env={"NAME": "Ada", "N": 1})
    assert read(done) == {"exit_code": 0, "stdout": "Ada\n", "stderr": "oops"}
    failed = await do("shell", command="echo a; exit 4; echo b")
    assert get_failure(failed).code == "EXIT_4"
    assert msgspec.json.decode(failed.result) == {"exit_code": 4, "stdout": "a\n", "stderr": ""}


async def test_duckdb_runs_statements_in_memory() -> None:
    command = "create table t (a int, b decimal(9, 2)); insert into t values ($a, 2.5), (7, null); select * from t"
    found = read(await do("duckdb", command=command, params={"a": 1}))
    assert found["rows"] == [{"a": 1, "b": 2.5}, {"a": 7, "b": None}]
    assert (found["columns"], found["row_count"], found["command_1"]["row_count"]) == (["a", "b"], 2, 2)
    assert read(await do("duckdb", query="select ?::int + ? as n", params=[1, 2]))["rows"] == [{"n": 3}]


async def test_duckdb_reaches_the_directories_that_the_worker_names_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    reads = f"select a + b as n from read_csv('{tmp_path}/in.csv')"
    failure = get_failure(await do("duckdb", command=reads))
    assert (failure.code, "disabled by configuration" in failure.message) == ("SQL_FAILED", True)
    assert get_failure(await do("duckdb", command="set enable_external_access = true")).code == "SQL_FAILED"
    assert get_failure(await do("duckdb", command="select 1", database="/etc/x.db")).code == "BAD_FIELDS"
    fields = msgspec.Raw(msgspec.json.encode({"command": f"create table t as {reads}; from t", "database": "x.db"}))
    request = TaskRequest(kind="duckdb", fields=fields, directories=(str(tmp_path),))
    assert read(await run_in_process(request, {}))["rows"] == [{"n": 3}]
    assert (tmp_path / "x.db").exists()


class Tools:
    """The worker's own way to call a task."""

    def __init__(self, **settings: Any) -> None:
        node: Node = build_node(ToolSettings(kinds=KINDS, environment=choose_environment(os.environ, []), **settings))
        self._kinds = {function.name: function for function in node.functions}

    async def call(self, kind: str, credentials: Any = None, **fields: Any) -> Outcome:
        call = TaskCall(
            kind=kind,
            label="t",
            step="s",
            execution_id="E",
            step_run="R",
            attempt=1,
            spec={},
            credentials=credentials or {},
        )
        returned = await self._kinds[kind].call(msgspec.json.encode(fields), call, DaemonThreadPool(1))
        assert isinstance(returned, Outcome)
        return returned


async def test_postgres_binds_parameters_and_returns_rows(database: str) -> None:
    commands = [
        "create table city (name text, size int, since timestamptz, more jsonb, price numeric)",
        "insert into city values (:name, :size, :since, :more, :price)",
        "select name, size, since at time zone 'utc', more, price, size > 3 as big from city where name = :name",
    ]
    params = {"name": "O'slo; --", "size": 5, "since": "2026-01-02T03:04:05Z", "more": {"a": [1]}, "price": 0.5}
    done = await Tools().call("postgres", {"db": database}, auth="db", commands=commands, params=params)
    assert done.error is None
    result: Any = done.result
    assert (result["columns"][0], result["row_count"], result["command_1"]["row_count"]) == ("name", 1, 1)
    assert [str(value) for value in result["rows"][0].values()] == [
        "O'slo; --", "5", "2026-01-02 03:04:05", "{'a': [1]}", "0.5", "True",
    ]  # fmt: skip


async def test_several_statements_of_postgres_are_one_transaction(database: str) -> None:
    failed = await Tools().call("postgres", auth={"pg": {"dsn": database}}, command="create table a (); select 1 / 0")
    assert failed.error is not None
    assert (failed.error["code"], failed.error["message"]) == ("SQL_22012", "division by zero")
    async with connected(database) as connection:
        assert await connection.fetchval("select to_regclass('a')") is None


async def test_an_address_may_be_in_parts_of_either_name(database: str) -> None:
    parts = urlsplit(database)
    host = parse_qs(parts.query).get("host", [parts.hostname])[0]
    given = {"db_host": host, "db_port": str(parts.port or 5432), "db_user": parts.username, "db_name": parts.path[1:]}
    credentials = {"db": {"type": "postgres", "data": {**given, "db_password": parts.password or "none"}}}
    for auth in ("db", {"pg": {"type": "postgres", "key": "db"}}, {"credential": "db"}):
        done = await Tools().call("postgres", credentials, auth=auth, command="select 1 as one")
        assert done.is_ok, done.error


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"auth": "other"}, "CREDENTIAL_MISSING"),
        ({"auth": 7}, "BAD_FIELDS"),
        ({"auth": "postgres://ada:secret-of-ada@127.0.0.1:1/x"}, "DATABASE_UNREACHABLE"),
        ({"dsn": "postgres://ada:secret-of-ada@[bad/x"}, "BAD_FIELDS"),
    ],
)
async def test_a_database_that_cannot_be_reached_is_named_without_secrets(fields: Any, code: str) -> None:
    failed = await Tools().call("postgres", command="select 1", **fields)
    assert failed.error is not None
    assert failed.error["code"] == code
    assert "secret" not in repr(failed)


async def test_the_worker_may_have_credentials_of_its_own(database: str, tmp_path: Path) -> None:
    (tmp_path / "own_db").write_text(database)
    tools = Tools(credentials=str(tmp_path))
    done = await tools.call("postgres", auth="own_db", command="select 1 as one")
    assert done.is_ok, done.error
    (tmp_path / "key").write_text("key-of-the-shop")
    told = await tools.call("python", auth="key", code="result = 'key-of-the-shop'")
    assert told.result == "***"


async def test_programs_are_given_no_credentials_but_those_in_their_fields() -> None:
    code = "import sys; result = len(sys._getframe(1).f_locals['request'].credentials)"
    told = await Tools().call("python", {"db": "postgres://ada:secret-of-ada@127.0.0.1/x"}, code=code)
    assert (told.error, told.result) == (None, len("{}"))


async def test_secrets_are_masked_in_what_tasks_come_to() -> None:
    credentials = {"db": "postgres://ada:secret-of-ada@127.0.0.1/x"}
    tools = Tools(secrets=("key-of-shop",))
    done = await tools.call("python", credentials, code="result = ['secret-of-ada', 'key-of-shop!']")
    assert done.result == ["***", "***!"]
    failed = await tools.call("shell", credentials, command="echo secret-of-ada 1>&2; exit 1")
    assert "secret-of-ada" not in repr(failed)


async def test_requests_are_sent_and_those_to_metadata_are_not() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        told = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"host:"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        done = await Tools().call("http", url=f"http://localhost:{port}/")
        assert done.is_ok, done.error
        assert done.result["data"].lower() == f"host: localhost:{port}"  # type: ignore[index,call-overload,union-attr]
    refused = await Tools().call("http", url="http://169.254.169.254/latest/meta-data")
    assert refused.error is not None
    assert refused.error["kind"] == "transport"
    async with httpx.AsyncClient(transport=GuardedTransport()) as client:
        with pytest.raises(AddressRefused):
            await client.get("http://[::ffff:169.254.169.254]/")


async def test_a_result_that_cannot_be_stored_fails_the_task() -> None:
    failed = await Tools().call("python", code="result = chr(0)")
    assert failed.error is not None
    assert (failed.error["code"], failed.error["retryable"]) == ("BAD_RESULT", False)


async def test_a_task_that_takes_too_long_is_a_timeout_that_may_be_tried_again() -> None:
    failed = await Tools(limits=TaskLimits(time_s=0.3)).call("shell", command="sleep 9")
    assert failed.error is not None
    assert (failed.error["kind"], failed.error["code"], failed.error["retryable"]) == ("timeout", "TIME_LIMIT", True)
