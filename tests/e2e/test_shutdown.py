"""Stopping: what is under way finishes, what is new is refused, and the exit code says which it was (§27)."""

import asyncio
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import grpc
import httpx
import psutil
import pytest

from statewright.storage import migrate
from tests.builders import a_processor, a_workflow, manual
from tests.database import connected, wait_for_migrations
from tests.e2e.program import Program, started
from tests.integration.grpc_rpcs.client import Rpcs
from tests.integration.node import Node
from tests.service import Api, a_token, done, eventually, names, refused

GUARDED = a_workflow(New=[manual("GO", to="Done", processors=[a_processor(responseTimeoutMs=60_000)])], Done=[])


def a_guarded_entity(api: Api) -> str:
    """An entity that waits for a processor to move."""
    api.a_model(GUARDED)
    return api.create().id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_idle_service_stops_at_once_and_well(tmp_path: Path, database: str, number: signal.Signals) -> None:
    with started(tmp_path, POSTGRES_URL=database) as program:
        program.ready().tell(number)
        assert program.ended() == 0
        assert program.errors == []


def test_a_processor_under_way_may_finish_while_new_calls_are_turned_away(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database) as program, ThreadPoolExecutor() as pool:
        api = program.ready().api()
        entity = a_guarded_entity(api)
        node = Node(program.grpc, a_token("any"), ("node",))
        fired = pool.submit(api.update, entity, {"year": 1}, fire="GO")
        request = node.next()
        program.tell(signal.SIGTERM)
        eventually(lambda: refuses(program))
        assert program.admin.get("/readyz").status_code == 503
        node.answer(request, payload={"data": {"year": 2}})
        saved = fired.result()
        assert program.ended() == 0
        node.leave()
    with started(tmp_path, POSTGRES_URL=database) as program:
        envelope = program.ready().api().read(entity)
        assert (envelope["meta"]["state"], envelope["meta"]["transactionId"]) == ("Done", saved.transaction)
        assert envelope["data"] == {"year": 2}
        assert program.terminate() == 0


def refuses(program: Program) -> bool:
    """Whether nobody is let in any more."""
    try:
        with httpx.Client(trust_env=False) as stranger:
            return stranger.get(f"{program.root}/api/health").status_code == 503
    except httpx.TransportError:
        return True


def test_a_run_that_outlasts_the_limit_is_undone(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database, SHUTDOWN_TIMEOUT="1s") as program, ThreadPoolExecutor() as pool:
        api = program.ready().api()
        entity = a_guarded_entity(api)
        node = Node(program.grpc, a_token("any"), ("node",))
        fired = pool.submit(outcome, api, entity)
        node.next()
        program.tell(signal.SIGTERM)
        assert program.ended() == 0
        assert fired.result() in {"cut off", "503"}
        node.leave()
    with started(tmp_path, POSTGRES_URL=database) as program:
        api = program.ready().api()
        assert api.state(entity) == "New"
        assert len(done(api.get(f"/entity/{entity}/changes"))) == 1


def test_a_run_that_is_cut_off_after_a_segment_is_no_invitation_to_repeat_it(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database, SHUTDOWN_TIMEOUT="1s") as program, ThreadPoolExecutor() as pool:
        api = program.ready().api()
        separate = a_processor(mode="COMMIT_BEFORE_DISPATCH", responseTimeoutMs=60_000)
        api.a_model(a_workflow(New=[manual("GO", to="Done", processors=[separate])], Done=[]))
        entity = api.create().id
        node = Node(program.grpc, a_token("any"), ("node",))
        fired = pool.submit(api.put, f"/entity/JSON/{entity}/GO", {"year": 1})
        node.next()
        program.tell(signal.SIGTERM)
        problem = refused(fired.result(), 400, "WORKFLOW_FAILED")
        assert program.ended() == 0
        node.leave()
    told = problem["properties"]
    assert (told["cause"], told.get("retryable")) == ("SERVICE_STOPPING", None)
    with started(tmp_path, POSTGRES_URL=database) as program:
        api = program.ready().api()
        refused(api.get(f"/entity/{entity}?transactionId={told['transactionId']}"), 404, "ENTITY_NOT_FOUND")
        envelope = api.read(entity)
        assert (envelope["meta"]["state"], envelope["data"]) == ("New", {"year": 1})
        assert "PAUSE_FOR_PROCESSING" in names(api.events(entity, told["transactionId"]))


def outcome(api: Api, entity: str) -> str:
    """What a client is told."""
    try:
        return str(api.put(f"/entity/JSON/{entity}/GO", {}).status_code)
    except httpx.TransportError:
        return "cut off"


def test_a_second_signal_ends_everything_at_once(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database) as program, ThreadPoolExecutor() as pool:
        api = program.ready().api()
        entity = a_guarded_entity(api)
        node = Node(program.grpc, a_token("any"), ("node",))
        fired = pool.submit(outcome, api, entity)
        node.next()
        program.tell(signal.SIGTERM)
        eventually(lambda: "shutdown_started" in program.log)
        program.tell(signal.SIGTERM)
        assert program.ended() == 2
        assert fired.result() == "cut off"
        node.leave()


def test_members_are_sent_away_in_a_way_that_makes_them_come_back(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database) as program:
        program.ready()
        node = Node(program.grpc, a_token("any"), ("node",))
        assert program.terminate() == 0
        eventually(lambda: node.ending is not None)
        assert node.ending == "UNAVAILABLE"
        node.leave()


def test_whoever_outlasts_the_limit_is_cut_off_and_awaited(tmp_path: Path, database: str) -> None:
    """A request, and a run without its client, whose member keeps silent; the member is asked to come back."""
    with started(tmp_path, POSTGRES_URL=database, SHUTDOWN_TIMEOUT="1s") as program, ThreadPoolExecutor() as pool:
        api = program.ready().api()
        separate = a_processor(mode="COMMIT_BEFORE_DISPATCH", responseTimeoutMs=60_000)
        go, stay = manual("GO", to="Done", processors=[separate]), manual("STAY", to="Done", processors=[a_processor()])
        api.a_model(a_workflow(New=[go, stay], Done=[]))
        left_alone, asked = api.create().id, api.create().id
        node = Node(program.grpc, a_token("any"), ("node",))
        with socket.create_connection(("127.0.0.1", program.ports["HTTP"])) as client:
            head = f"PUT /api/entity/JSON/{left_alone}/GO HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}"
            client.sendall(head.encode())
            node.next()
        fired = pool.submit(outcome, api, asked)
        node.next()
        program.tell(signal.SIGTERM)
        eventually(lambda: "shutdown_started" in program.log)
        assert program.ended() == 0
        fired.result()
        eventually(lambda: node.ending is not None)
        assert node.ending == "UNAVAILABLE"
        node.leave()
        assert "runs_cut_off" in program.log
        assert "Task was destroyed" not in program.log


LIMIT_S = 5.0
"""Of a shutdown in which each of several parts would take all of it."""

WAYS = {"asked over HTTP": "prize/1", "asked over gRPC": "prize/1", "left alone": "parted/1"}


@pytest.mark.parametrize("arguments", [["serve"], ["serve", "--workers", "2"]], ids=["one process", "two workers"])
def test_all_parts_of_a_shutdown_together_have_one_limit(tmp_path: Path, database: str, arguments: list[str]) -> None:
    """Requests of both doors, a run without its client and a request that never arrives whole, none of which ends."""
    limits = {"SHUTDOWN_TIMEOUT": f"{LIMIT_S:g}s", "DRAIN_WINDOW": "1s"}
    with started(tmp_path, *arguments, POSTGRES_URL=database, **limits) as program, ThreadPoolExecutor() as pool:
        api = program.ready().api()
        api.a_model(GUARDED)
        separate = a_processor(mode="COMMIT_BEFORE_DISPATCH", responseTimeoutMs=60_000)
        parted = a_workflow(New=[manual("GO", to="Done", processors=[separate]), manual("STAY", to="New")], Done=[])
        api.a_model(parted, model="parted/1")
        entities = {way: api.create(model=model).id for way, model in WAYS.items()}
        node = Node(program.grpc, a_token("any"), ("node",))
        asked = pool.submit(outcome, api, entities["asked over HTTP"])
        called = pool.submit(status_of, program.grpc, entities["asked over gRPC"])
        node.next(), node.next()
        http = "127.0.0.1", program.ports["HTTP"]
        with socket.create_connection(http) as slow, socket.create_connection(http) as leaving:
            slow.sendall(b"POST /api/entity/JSON/prize/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            path = f"/api/entity/JSON/{entities['left alone']}/GO"
            leaving.sendall(f'PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{{"year":7}}'.encode())
            node.next()
            leaving.close()
            begun = monotonic()
            program.tell(signal.SIGTERM)
            assert program.ended() == 0
            taken = monotonic() - begun
        assert taken < 2 * LIMIT_S + 1, "parts of the shutdown have waited one after the other"
        assert asked.result() in {"cut off", "503"}
        assert called.result() in {"UNAVAILABLE", "CANCELLED", "refused"}
        assert program.errors == []
        node.leave()
    with started(tmp_path, POSTGRES_URL=database) as program:
        api = program.ready().api()
        kept = {way: (api.state(id_), len(done(api.get(f"/entity/{id_}/changes")))) for way, id_ in entities.items()}
        assert kept == {"asked over HTTP": ("New", 1), "asked over gRPC": ("New", 1), "left alone": ("New", 2)}
        assert api.read(entities["left alone"])["data"] == {"year": 7}
        assert done(api.get("/entity/stats/prize/1"))["count"] == 2
        api.update(entities["left alone"], fire="STAY")
        assert program.terminate() == 0


def status_of(address: str, entity: str) -> str:
    """How a transition over gRPC ends that does not succeed."""
    try:
        answer = Rpcs(address, "any").one("EntityTransitionRequest", entityId=entity, transition="GO")
    except grpc.RpcError as ended:
        return str(ended.code().name)  # type: ignore[attr-defined]  # a call, too
    assert answer["success"] is False
    return "refused"


def processes_in(home: Path) -> list[str]:
    """Command lines that name a file below the directory."""
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(home) in line]


def test_a_signal_while_the_database_is_created_undoes_the_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(tmp_path, DATA_DIRECTORY=str(data)) as program:
        eventually(lambda: any(data.glob("postgres.new-*")), within_s=30)
        assert program.terminate() == 0
        assert program.errors == []
    eventually(lambda: processes_in(tmp_path) == [], within_s=30)
    with started(tmp_path, DATA_DIRECTORY=str(data)) as program:
        program.ready()
        assert program.terminate() == 0


def test_a_signal_while_migrations_wait_ends_the_wait(tmp_path: Path, database: str) -> None:
    async def ended_while_locked(program: Program) -> int:
        async with connected(database) as other, other.transaction():
            await other.execute(migrate.TAKE_LOCK, migrate.LOCK_KEY)
            process = await asyncio.to_thread(program.__enter__)
            async with asyncio.timeout(30):
                await wait_for_migrations(other)
            return await asyncio.to_thread(process.terminate)

    program = started(tmp_path, POSTGRES_URL=database)
    try:
        assert asyncio.run(ended_while_locked(program)) == 0
    finally:
        program.__exit__(None, None, None)
    with started(tmp_path, POSTGRES_URL=database) as again:
        again.ready()
        assert again.terminate() == 0
