"""Stopping: what is under way finishes, what is new is refused, and the exit code says which it was (§27)."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.builders import a_processor, a_workflow, manual
from tests.e2e.program import Program, started
from tests.integration.node import Node
from tests.service import Api, a_token, done, eventually, refused

GUARDED = a_workflow(New=[manual("GO", to="Done", processors=[a_processor(responseTimeoutMs=60_000)])], Done=[])


def a_guarded_entity(api: Api) -> str:
    """An entity that waits for a processor to move."""
    api.a_model(GUARDED)
    return api.create().id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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
        envelope = program.ready().api().read(entity, f"?transactionId={told['transactionId']}")
        assert (envelope["meta"]["state"], envelope["data"]) == ("New", {"year": 1})


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
