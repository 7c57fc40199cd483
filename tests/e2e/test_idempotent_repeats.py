"""Three nodes, and requests with idempotency keys that come many times at once, whose answers are lost, or whose node
is killed in the middle (docs/reference/operations.md#idempotent-requests).

``STATEWRIGHT_TEST_KEYED_ITEMS=10000`` is the full size of the collections, ``STATEWRIGHT_TEST_CUT_CREATES=200`` is how
many creates kills of their node are to cut off, each at whatever it was at.
"""

import os
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.builders import Json, a_processor, a_workflow, automated, when
from tests.database import Template, kept_open
from tests.e2e.program import Program, started
from tests.integration.node import Node, Request
from tests.service import PATIENCE_S, Api, a_token, done, eventually, refused

ITEMS: Final = int(os.environ.get("STATEWRIGHT_TEST_KEYED_ITEMS", "1000"))
WINDOWS: Final = 10
WINDOW: Final = ITEMS // WINDOWS
HELD: Final = 4 * WINDOW + WINDOW // 2
"""The item whose member does not answer: four windows are durable then."""

CALLING: Final = ITEMS // 50
"""Of so many items one calls the member."""

TWINS: Final = 100

CUT_CREATES: Final = int(os.environ.get("STATEWRIGHT_TEST_CUT_CREATES", "5"))
CREATORS: Final = 16
"""Clients that create entities at once; a kill cuts off a create of most of them."""

SETTINGS: Final = {"NODE_LEASE": "2s", "IDEMPOTENCY_WAIT": "60s", "DISPATCH_WAIT_TIMEOUT": "30s", "DRAIN_WINDOW": "0s"}

MODES: Final = {"called/1": "SYNC", "segmented/1": "COMMIT_BEFORE_DISPATCH"}
"""Models, and how those of their entities that say so call a member as they are created."""


@pytest.fixture(scope="module")
def start(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Program]]:
    """Starts a node on a database that all have."""
    home: Path = tmp_path_factory.mktemp("repeats")
    with kept_open(database_template.clone()) as database, ExitStack() as stack:
        yield lambda: stack.enter_context(started(home, POSTGRES_URL=database, **SETTINGS))


@pytest.fixture(scope="module")
def nodes(start: Callable[[], Program]) -> list[Program]:
    """Three nodes. The last two tests kill the first and the second of them."""
    programs = [start() for _ in range(3)]
    for program in programs:
        program.ready()
    for model, mode in MODES.items():
        processors = [a_processor(mode=mode, responseTimeoutMs=120_000)]
        go = automated("GO", to="DONE", processors=processors, criterion=when("$.calls", "EQUALS", True))
        programs[0].api().a_model(a_workflow(NEW=[go], DONE=[]), model=model, sample=item(1))
    programs[0].api().a_model(a_workflow(NEW=[automated("GO", to="DONE")], DONE=[]), model="plain/1", sample=item(1))
    return programs


@pytest.fixture
def member(nodes: list[Program]) -> Iterator[Node]:
    """A member of the last node."""
    node = Node(nodes[-1].grpc, a_token("any"), ("node",))
    try:
        yield node
    finally:
        node.leave()


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(TWINS) as clients:
        yield clients


class CuttingProxy:
    """Passes one request on to a program. The answer it keeps: its client has a connection that ends."""

    def __init__(self, program: Program) -> None:
        self.answer = b""
        self._target = program.ports["HTTP"]
        self._heard = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/api"
        self._work = threading.Thread(target=self._serve, daemon=True)
        self._work.start()

    def wait(self) -> None:
        """Until the program has answered: what it did is durable."""
        assert self._heard.wait(PATIENCE_S)

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with self._listener, client, socket.create_connection(("127.0.0.1", self._target)) as program:
            program.sendall(read_message(client))
            self.answer = read_message(program)
            self._heard.set()


def read_message(end: socket.socket) -> bytes:
    """A request or an answer, to the length that its head tells."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += receive(end)
    head, _, body = received.partition(b"\r\n\r\n")
    [length] = re.findall(rb"(?im)^content-length: (\d+)", head)
    while len(body) < int(length):
        body += receive(end)
    return head + b"\r\n\r\n" + body


def receive(end: socket.socket) -> bytes:
    part = end.recv(65_536)
    assert part, "the connection has ended"
    return part


def item(number: int, *, calls: bool = False) -> Json:
    return {"n": number, "calls": calls}


def create(api: Api, model: str, key: str, body: Json, query: str = "") -> httpx.Response:
    return api.post(f"/entity/JSON/{model}{query}", body, Idempotency_Key=key)


def lose_answer(proxy: CuttingProxy, model: str, key: str, body: Json) -> None:
    """Send a request by way of the proxy."""
    with pytest.raises(httpx.TransportError):
        create(Api(proxy.url), model, key, body)


def stored(api: Api, model: str) -> Counter[int]:
    """The numbers of a model's documents, and how often each is there."""
    pages = [done(api.get(f"/entity/{model}?pageSize=10000&pageNumber={number}")) for number in (0, 1)]
    return Counter(entity["data"]["n"] for page in pages for entity in page)


def is_replay(answer: httpx.Response) -> bool:
    return answer.headers.get("idempotency-replayed") == "true"


def answer_until_held(member: Node, models: int) -> list[Request]:
    """Answer callouts, but for those of the held items, of which every model has one."""
    held: list[Request] = []
    while len(held) < models:
        request = member.next()
        if request.data["n"] == HELD:
            held.append(request)
        else:
            member.answer(request)
    return held


def answer_while(member: Node, work: "Future[httpx.Response]") -> httpx.Response:
    """Answer callouts until something is done."""
    while not work.done():
        eventually(lambda: work.done() or not member.is_idle, within_s=4 * PATIENCE_S)
        while not member.is_idle:
            member.answer_next()
    return work.result()


def test_of_a_hundred_twins_on_three_nodes_one_is_carried_out(
    nodes: list[Program], member: Node, crowd: ThreadPoolExecutor
) -> None:
    apis = [program.api() for program in nodes]
    twins = [crowd.submit(create, apis[n % 3], "called/1", "twins", item(-1, calls=True)) for n in range(TWINS)]
    member.answer_next()
    answers = [twin.result() for twin in twins]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert sum(map(is_replay, answers)) == TWINS - 1
    assert member.is_idle
    assert stored(apis[0], "called/1")[-1] == 1


def test_an_answer_that_was_lost_is_given_again(nodes: list[Program]) -> None:
    proxy = CuttingProxy(nodes[0])
    lose_answer(proxy, "called/1", "lost", item(-2))
    proxy.wait()
    again = create(nodes[1].api(), "called/1", "lost", item(-2))
    assert is_replay(again)
    assert proxy.answer.endswith(again.content)
    assert stored(nodes[1].api(), "called/1")[-2] == 1


def test_a_node_is_killed_with_keyed_requests_in_all_stages(
    nodes: list[Program], member: Node, crowd: ThreadPoolExecutor
) -> None:
    doomed, api = nodes[0].api(), nodes[1].api()
    items = [item(n, calls=n % CALLING == 0 or n == HELD) for n in range(ITEMS)]
    window = f"?transactionWindow={WINDOW}"
    cut_off = [crowd.submit(create, doomed, model, f"all-of-{model}", items, window) for model in MODES]
    held = answer_until_held(member, len(MODES))
    proxy = CuttingProxy(nodes[0])
    unheard = crowd.submit(lose_answer, proxy, "called/1", "unheard", item(-3))
    proxy.wait()
    nodes[0].kill()
    unheard.result()
    for each in cut_off:
        with pytest.raises(httpx.TransportError):
            each.result()

    assert create(api, "called/1", "unheard", item(-3)).content in proxy.answer

    whole = crowd.submit(create, api, "called/1", "all-of-called/1", items, window)
    answer = answer_while(member, whole)
    assert [len(element["entityIds"]) for element in done(answer)] == [WINDOW] * WINDOWS
    numbers = stored(api, "called/1")
    assert {n: numbers[n] for n in range(ITEMS)} == dict.fromkeys(range(ITEMS), 1)
    assert is_replay(create(api, "called/1", "all-of-called/1", items, window))

    problem = refused(create(api, "segmented/1", "all-of-segmented/1", items, window), 409, "IDEMPOTENCY_INTERRUPTED")
    [late] = [request for request in held if request["entityId"] in problem["properties"]["entityIds"]]
    assert late.data["n"] == HELD
    numbers = stored(api, "segmented/1")
    assert set(numbers.values()) == {1}
    assert set(range(4 * WINDOW)) <= set(numbers)
    assert member.is_idle


def create_until_cut_off(api: Api, first: int) -> tuple[dict[int, httpx.Response], int | None]:
    """Create one entity after the other, each with a key of its own. The answers by number, and the number of the one
    that the end of the node cut off; None when it came between two.
    """
    answers: dict[int, httpx.Response] = {}
    for number in count(first):
        try:
            answers[number] = create(api, "plain/1", f"plain-{number}", item(number))
        except httpx.ConnectError:
            return answers, None
        except httpx.TransportError:
            return answers, number
    raise AssertionError("numbers have an end")


def test_creates_that_a_kill_cuts_off_at_random_moments_are_done_once(
    nodes: list[Program], start: Callable[[], Program], crowd: ThreadPoolExecutor
) -> None:
    chance, api, doomed = random.Random(2026), nodes[2].api(), nodes[1]
    answers: dict[int, httpx.Response] = {}
    cut_off: dict[int, httpx.Response] = {}
    kills = 0
    while True:
        firsts = [(kills * CREATORS + each) * 10_000 for each in range(CREATORS)]
        working = [crowd.submit(create_until_cut_off, doomed.api(), first) for first in firsts]
        threading.Event().wait(chance.uniform(0.1, 0.4))
        doomed.kill()
        kills += 1
        for answered, lost in (each.result(4 * PATIENCE_S) for each in working):
            answers |= answered
            if lost is not None:
                cut_off[lost] = create(api, "plain/1", f"plain-{lost}", item(lost))
        if len(cut_off) >= CUT_CREATES:
            break
        doomed = start().ready()

    assert {answer.status_code for answer in (*answers.values(), *cut_off.values())} == {200}
    for number, first in (answers | cut_off).items():
        again = create(api, "plain/1", f"plain-{number}", item(number))
        assert (is_replay(again), again.content) == (True, first.content)
    assert stored(api, "plain/1") == Counter(dict.fromkeys(answers | cut_off, 1))
    replays = sum(map(is_replay, cut_off.values()))
    print(f"{kills} kills cut off {len(cut_off)} creates: {replays} were durable; {len(answers)} were answered")  # noqa: T201
