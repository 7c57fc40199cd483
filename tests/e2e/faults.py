"""A stage for faults: the installed program, an entity per execution mode, and what is left of each afterwards.

Every entity waits in NEW, where a timer of an hour is armed. GO leads to DONE, where there is none, and runs one
processor. A client submits a document with GO; the processor returns another one. So the document of an entity tells
how far its run has come, and the timer whether state and schedule agree.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.e2e.program import EXECUTABLE, PATIENCE_S, Program, environment
from tests.integration.node import Node, Request
from tests.service import Api, Saved, a_token, eventually

IN_TRANSACTION: Mapping[str, Json] = {"SYNC": {"mode": "SYNC"}, "ASYNC_SAME_TX": {"mode": "ASYNC_SAME_TX"}}
IN_SAVEPOINT: Mapping[str, Json] = {"ASYNC_NEW_TX": {"mode": "ASYNC_NEW_TX"}}
BETWEEN: Mapping[str, Json] = {
    "COMMIT_BEFORE_DISPATCH": {"mode": "COMMIT_BEFORE_DISPATCH"},
    "COMMIT_BEFORE_DISPATCH+tx": {"mode": "COMMIT_BEFORE_DISPATCH", "startNewTxOnDispatch": True},
}
MODES: Mapping[str, Json] = {**IN_TRANSACTION, **IN_SAVEPOINT, **BETWEEN}
"""The execution modes, and how a processor is declared to have them."""

NEVER_MS = 120_000
"""A reply deadline that no test reaches."""

ORIGINAL, SUBMITTED, PROCESSED = SAMPLE["motivation"], "submitted", "processed"

SUBMISSION = {**SAMPLE, "motivation": SUBMITTED}
RESULT = {**SAMPLE, "motivation": PROCESSED}

LAPSE = automated("LAPSE", to="LAPSED", schedule={"delayMs": 3_600_000})


@dataclass(frozen=True)
class Told:
    """What the client got: the status, and of a problem its code, cause and whether it may be tried again."""

    status: int
    code: str = ""
    cause: str = ""
    retryable: bool = False


CUT_OFF = Told(0)
"""There was no answer."""


@dataclass(frozen=True)
class Held:
    """What the database holds of an entity: state, document, number of versions, states with an armed timer, and the
    events of the run that was to make the transition, in order.
    """

    state: str
    motivation: str
    versions: int
    timers: tuple[str, ...]
    events: tuple[str, ...] = ()


START, PAUSE, RAN, MADE, CANCELLED, FINISH = (
    "STATE_MACHINE_START",
    "PAUSE_FOR_PROCESSING",
    "STATE_PROCESS_RESULT",
    "TRANSITION_MAKE",
    "SCHEDULED_TRANSITION_CANCEL",
    "STATE_MACHINE_FINISH",
)
WHOLE = (START, PAUSE, RAN, MADE, CANCELLED, FINISH)
"""The events of a run that comes to its end."""

ROLLED_BACK = Held("NEW", ORIGINAL, 1, ("NEW",))
WENT_ON = Held("DONE", SUBMITTED, 2, (), WHOLE)
BEFORE_THE_CALL = Held("NEW", SUBMITTED, 2, ("NEW",), (START, PAUSE))
FAILED_ON_RECORD = Held("NEW", SUBMITTED, 2, ("NEW",), (START, PAUSE, RAN))
DONE = Held("DONE", PROCESSED, 2, (), WHOLE)
DONE_IN_TWO = Held("DONE", PROCESSED, 3, (), WHOLE)


Outcome = tuple[Told, Held]
"""What the client got, and what the database holds."""


def by_mode(*, fatal: Outcome, savepoint: Outcome, between: Outcome) -> dict[str, Outcome]:
    """The outcomes of all modes, by those that behave alike."""
    return {
        **dict.fromkeys(IN_TRANSACTION, fatal),
        **dict.fromkeys(IN_SAVEPOINT, savepoint),
        **dict.fromkeys(BETWEEN, between),
    }


@dataclass
class Case:
    """An entity whose run meets a fault."""

    mode: str
    id: str
    created_in: str
    answer: "Future[Told] | None" = None

    @property
    def told(self) -> Told:
        """What the client got, at last."""
        assert self.answer is not None
        return self.answer.result(PATIENCE_S)


@dataclass
class Stage:
    """A running program, its database, and clients."""

    program: Program
    database: str
    clients: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=32))
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def api(self) -> Api:
        return self.program.api()

    def cases(
        self, fault: str, *, then: Sequence[Json] = (), timers: Sequence[Json] = (LAPSE,), **config: Json
    ) -> list[Case]:
        """An entity for each mode; its processor ``work`` is for members with the tag ``fault``."""
        config = {"responseTimeoutMs": NEVER_MS, **config}
        return [
            self._case(fault, mode, a_processor("work", tags=fault, **{**config, **MODES[mode]}), then, timers)
            for mode in MODES
        ]

    def _case(self, fault: str, mode: str, processor: Json, then: Sequence[Json], timers: Sequence[Json]) -> Case:
        go = manual("GO", to="DONE", processors=[processor, *then])
        flow = a_workflow(NEW=[*timers, go], DONE=[], LAPSED=[])
        name = f"{fault}-{next(self._numbers)}/1"
        saved = self.api.create(model=self.api.a_model(flow, model=name))
        return Case(mode, saved.id, saved.transaction)

    def fire(self, cases: list[Case], **headers: str) -> None:
        """Let a client of each entity submit a document with GO."""
        for case in cases:
            case.answer = self.clients.submit(self.go, case, **headers)

    def go(self, case: Case, **headers: str) -> Told:
        """What one client gets."""
        try:
            response = self.api.put(f"/entity/JSON/{case.id}/GO", SUBMISSION, **headers)
        except httpx.TransportError:
            return CUT_OFF
        return told(response)

    @contextmanager
    def member(self, *tags: str) -> Iterator[Node]:
        """A member that says what a test wants it to say."""
        node = Node(self.program.grpc, a_token("any"), tags)
        try:
            yield node
        finally:
            node.leave()

    @contextmanager
    def node_program(self, home: Path, module: str, source: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A calculation node as a process; to be killed."""
        (home / f"{module}.py").write_text(source)
        settings = {"STATEWRIGHT_COMPUTE_ENDPOINT": self.program.grpc}
        with (home / f"{module}.log").open("wb") as log:
            process = subprocess.Popen(
                [EXECUTABLE, "node", f"{module}:node"],
                cwd=home,
                env=environment(home, settings),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            eventually(lambda: "node_joined" in (home / f"{module}.log").read_text(), within_s=PATIENCE_S)
            yield process
        finally:
            process.kill()
            process.wait(PATIENCE_S)

    def held(self, case: Case) -> Held:
        """What the database holds of an entity, once no transaction is open any more."""
        self.quiet()
        [row] = self.sql(HELD, case.id, case.created_in)
        events = tuple(event["type"] for run in row["runs"] or () for event in json.loads(run))
        return Held(row["state"], row["motivation"], row["versions"], tuple(row["timers"] or ()), events)

    def events(self, case: Case, of: Saved | None = None) -> list[tuple[str, str]]:
        """Types and transactions of the events after its creation, or of one run, oldest first."""
        path = f"/audit/entity/{case.id}?eventType=StateMachine&limit=1000"
        items = reversed(self.api.get(path).json()["items"])
        found = [
            (item["eventType"], item["transactionId"]) for item in items if item["transactionId"] != case.created_in
        ]
        return [event for event in found if of is None or event[1] == of.transaction]

    def call_back(self, requests: Sequence[Request], cases: Sequence[Case], *, note: str) -> None:
        """Let the member write a note in a callback of each callout, inside its transaction if it has one."""
        if not self.sql("SELECT 1 FROM model WHERE name = 'note'"):
            self.api.a_model(model="note/1", sample={"by": "", "mode": ""})
        modes = {case.id: case.mode for case in cases}
        for request in requests:
            token = request.attributes.get("cyodatxtoken")
            joining = {"X_Tx_Token": token} if token else {}
            document = {"by": note, "mode": modes[str(request["entityId"])]}
            response = self.api.post("/entity/JSON/note/1", document, **joining)
            assert response.status_code == 200, response.text

    def notes(self, note: str) -> set[str]:
        """The modes whose callbacks have left their note in the database."""
        return {row["mode"] for row in self.sql(NOTES, note)}

    def outcomes(self, cases: Sequence[Case]) -> dict[str, Outcome]:
        """What became of all of them, by mode, once no transaction is open any more."""
        told = {case.mode: case.told for case in cases}
        return {case.mode: (told[case.mode], self.held(case)) for case in cases}

    def quiet(self) -> None:
        """Waits until the service has no database transaction open."""
        eventually(lambda: not self.sql(OPEN), within_s=PATIENCE_S)

    def sql(self, query: str, *arguments: object) -> list[Any]:
        """Ask the database behind the service's back."""

        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.database)
            try:
                return list(await connection.fetch(query, *arguments))
            finally:
                await connection.close()

        return asyncio.run(ask())


HELD = """
    SELECT entity.state, entity.document ->> 'motivation' AS motivation,
           1 + (SELECT count(*) FROM entity_history AS old WHERE old.id = entity.id) AS versions,
           (SELECT array_agg(state ORDER BY state) FROM scheduled_task WHERE entity = $1) AS timers,
           (SELECT array_agg(events ORDER BY at) FROM entity_audit
             WHERE entity = $1 AND transaction_id <> $2::uuid) AS runs
      FROM entity WHERE id = $1::uuid
"""

NOTES = "SELECT document ->> 'mode' AS mode FROM entity WHERE document ->> 'by' = $1"

OPEN = """
    SELECT pid, query FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'
"""


def told(response: httpx.Response) -> Told:
    """A response in short."""
    if response.status_code == 200:
        return Told(200)
    properties = response.json()["properties"]
    return Told(
        response.status_code,
        properties["errorCode"],
        properties.get("cause", ""),
        properties.get("retryable", False),
    )


def taken(node: Node, cases: Sequence[Case]) -> list[Request]:
    """The callouts of all cases, in the order in which they arrived."""
    return [node.next() for _ in cases]
