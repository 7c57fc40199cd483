"""A request with an idempotency key, step by step, against a record in memory: whatever comes between, one attempt
writes the answer, and who has lost the key writes nothing (docs/reference/operations.md#idempotent-requests).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from statewright.failures import (
    BadRequest,
    Conflict,
    Failure,
    IdempotencyClaimLost,
    IdempotencyKeyTaken,
    OutcomeUnknown,
    StorageUnavailable,
    WorkflowFailed,
)
from statewright.ids import TenantId
from statewright.operations.idempotency import KeyScope, StoredAnswer
from statewright.services.idempotency.keyed import (
    INTERRUPTED_RETENTION,
    MAX_ANSWER_CHARS,
    AnswerFormat,
    KeyedRequest,
    KeySettings,
)
from statewright.services.idempotency.progress import IllegalMove
from statewright.storage import idempotency as statements
from statewright.storage.idempotency import KEYS, NOBODY, KeyRecord, KeyRecords

T = TypeVar("T")

SCOPE = KeyScope(TenantId("acme"), "alice", "00112233445566778899aabbccddeeff")
RETENTION = timedelta(hours=24)
FORMAT = AnswerFormat(
    failure=lambda failure: StoredAnswer(failure.status, "application/problem+json", failure.message),
    defect=lambda defect: StoredAnswer(500, "application/problem+json", repr(defect)),
)


class Record(Struct):
    """What is stored of the key."""

    token: str
    status: str
    is_segmented: bool = False
    elements: tuple[str, ...] = ()
    answer: StoredAnswer | None = None
    kept_us: int = 0


class Database:
    """The record of one key, changed as the statements of ``storage/idempotency.py`` and the commit statement do."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self.is_away = False

    def commit(self, record: KeyRecord) -> None:
        """As parts of the commit statement. Raises what they refuse."""
        if not self._write(record):
            raise IdempotencyKeyTaken if record.claim is None else IdempotencyClaimLost

    def _write(self, record: KeyRecord) -> bool:
        stored = self.record
        if record.claim is None:
            if stored is not None:
                return False
            stored = self.record = Record(record.token, record.status)
        elif stored is None or (stored.token, stored.status) != (record.claim, "IN_PROGRESS"):
            return False
        stored.status, stored.is_segmented, stored.kept_us = record.status, record.is_segmented, record.kept_us
        stored.elements += () if record.element is None else (record.element,)
        if record.answer_status is not None:
            stored.answer = StoredAnswer(record.answer_status, record.answer_type or "", record.answer or "")
        return True

    # What a pool is asked for.

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["Database"]:
        await asyncio.sleep(0)
        if self.is_away:
            raise StorageUnavailable
        yield self

    async def fetchval(self, text: str, *args: Any) -> bool | None:
        tenant, principal, key, *rest = args
        assert KeyScope(tenant, principal, key) == SCOPE
        if text == statements.ADD:
            hash_, token, node, status, transaction, entities, *answer = rest
            claim = None
        else:
            assert text == statements.CHANGE
            claim, status, transaction, entities, *answer = rest
            hash_, token, node = "", NOBODY, ""
        answer_status, answer_type, body, kept_us = answer
        record = KeyRecord(
            tenant=tenant,
            principal=principal,
            key=key,
            request_hash=hash_,
            claim=claim,
            token=token,
            node=node,
            status=status,
            transaction_id=transaction,
            entities=entities,
            answer_status=answer_status,
            answer_type=answer_type,
            answer=body,
            kept_us=kept_us,
        )
        return True if self._write(record) else None

    async def execute(self, text: str, *args: Any) -> None:
        stored = self.record
        if text == statements.AMEND:
            if stored is not None and stored.status == "DONE":
                stored.answer = StoredAnswer(*args[4:])
            return
        assert text == statements.GIVE_UP
        is_own = stored is not None and (stored.token, stored.status) == (args[3], "IN_PROGRESS")
        if stored is not None and is_own and not stored.is_segmented and not stored.elements:
            self.record = None

    def take_over(self, keyed: KeyedRequest) -> None:
        """Another attempt goes on with what this one's has begun: a node was taken for dead."""
        assert self.record is not None
        self.record.token = keyed.token
        keyed.resume(self.record.elements)


class Reader:
    """As ``KeyReader``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, _scope: KeyScope) -> Record | None:
        if self._database.is_away:
            raise StorageUnavailable
        return self._database.record


class Unit:
    """A unit of work, as far as records are concerned."""

    def __init__(self, database: Database, *, parent: "Unit | None" = None) -> None:
        self.database = database
        self.parent = parent
        self.parts: dict[str, Any] = {}
        self.id = "t-2" if parent is None else parent.id
        self.label = "t-1"
        self.written_ids: Sequence[str] = ["e-1"]

    async def commit(self) -> int | None:
        """Commit what is staged: the instant, or None where that is only part of another unit."""
        await asyncio.sleep(0)
        if self.parent is not None:
            return None
        staged = self.parts.pop(KEYS, None)
        for record in () if staged is None else staged.records:
            self.database.commit(record)
        return 1

    async def refuse(self) -> int | None:
        self.parts.clear()
        raise Conflict("another was faster")

    async def commit_rows(self, _rows: object, parts: dict[str, KeyRecords]) -> bool:
        """Commit events with optional parts."""
        self.parts |= parts
        await self.commit()
        return True


def a_request(database: Database) -> KeyedRequest:
    """An attempt at the request."""
    shared = KeySettings(pool=database, reader=Reader(database), node="n-1", retention=RETENTION)  # type: ignore[arg-type]
    keyed = KeyedRequest(shared, SCOPE, bytes(32), FORMAT)

    async def compose(result: object) -> StoredAnswer:
        await asyncio.sleep(0)
        return StoredAnswer(200, "application/json", str(result))

    keyed.respond_with(compose)
    return keyed


def encode(element: object) -> bytes:
    return f"<{element}>".encode()


async def commit_chunk(keyed: KeyedRequest, unit: Unit, element: object, *, is_last: bool = False) -> int | None:
    keyed.open_chunk([*keyed.elements], encode, is_last=is_last, conclude=None)
    return await keyed.commit(unit, element, unit.commit)  # type: ignore[arg-type]


async def commit_segment(keyed: KeyedRequest, unit: Unit) -> None:
    keyed.stage_segment(unit)  # type: ignore[arg-type]
    await unit.commit()
    keyed.confirm_segment()


Step = Literal["claim", "segment", "chunk", "finish", "conflict", "fail", "give up"]


async def go(keyed: KeyedRequest, database: Database, step: Step) -> None:
    """One step of an attempt; raises what it raises."""
    unit = Unit(database)
    match step:
        case "claim":
            await keyed.prepare_callout()
        case "segment":
            await commit_segment(keyed, unit)
        case "chunk":
            await commit_chunk(keyed, unit, len(keyed.elements))
        case "finish":
            await commit_chunk(keyed, unit, "end", is_last=True)
        case "conflict":
            with pytest.raises(Conflict):
                await keyed.commit(unit, "lost", unit.refuse)  # type: ignore[arg-type]
        case "fail":
            if keyed.is_partly_durable:
                await keyed.commit_failure(None, WorkflowFailed("no"))
        case "give up":
            await keyed.give_up()


def run(work: Awaitable[T]) -> T:
    """Here nothing waits for more than its turn, so no event loop is needed."""
    turns = work.__await__()
    while True:
        try:
            next(turns)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


steps: st.SearchStrategy[Step] = st.sampled_from(
    ["claim", "segment", "chunk", "chunk", "finish", "conflict", "fail", "give up"]
)


def describe(database: Database) -> tuple[object, ...]:
    """The record as it is now."""
    record = database.record
    return () if record is None else (record.token, record.status, record.elements, record.answer)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), steps), max_size=12))
def test_of_two_attempts_one_has_the_key_and_the_other_writes_nothing(script: list[tuple[bool, Step]]):
    async def play() -> None:
        database = Database()
        attempts = (a_request(database), a_request(database))
        over: set[KeyedRequest] = set()
        for which, step in script:
            keyed, other = attempts[which], attempts[not which]
            if keyed in over:
                continue
            before, had_it = describe(database), keyed.is_claimed
            try:
                await go(keyed, database, step)
            except IdempotencyKeyTaken:
                assert before != (), "only a record is in the way"
                assert describe(database) == before
                assert not keyed.is_claimed
                continue
            if step in {"give up", "fail", "finish"}:
                over.add(keyed)
            if describe(database) != before:
                assert had_it or before == (), "what another has written was changed"
            assert keyed.answer is None or other.answer is None
            assert not (keyed.is_claimed and other.is_claimed) or over
            check_agreement(keyed, database, is_given_up=step == "give up")

    run(play())


def check_agreement(keyed: KeyedRequest, database: Database, *, is_given_up: bool) -> None:
    """What the attempt knows of its record is what is stored."""
    record = database.record
    if not keyed.is_claimed:
        return
    if is_given_up and not keyed.is_partly_durable and keyed.answer is None:
        assert record is None, "nothing stays of an attempt without effect"
        return
    assert record is not None
    assert record.elements == keyed.elements
    assert record.answer == keyed.answer
    assert record.status == ("IN_PROGRESS" if keyed.answer is None else "DONE")
    assert keyed.answer is not None or record.token == keyed.token


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(["claim", "chunk"]), min_size=1, max_size=4),
    st.lists(st.tuples(st.booleans(), steps), max_size=8),
)
def test_whoever_is_taken_over_writes_nothing_more_and_the_other_goes_on_behind_its_chunks(
    begun: list[Step], script: list[tuple[bool, Step]]
):
    async def play() -> None:
        database = Database()
        former, heir = a_request(database), a_request(database)
        for step in begun:
            await go(former, database, step)
        database.take_over(heir)
        assert heir.elements == former.elements
        assert heir.is_partly_durable == ("chunk" in begun)
        for is_former, step in script:
            before = describe(database)
            if is_former:
                try:
                    await go(former, database, step)
                except IdempotencyClaimLost:
                    pass
                else:
                    assert step in {"claim", "conflict", "fail", "give up"}
                assert describe(database) == before
                assert former.answer is None
            else:
                await go(heir, database, step)
                if heir.answer is not None or step == "give up":
                    break
        if heir.answer is not None and heir.answer.is_success:
            assert heir.answer.body == str([*heir.elements, "end"])

    run(play())


class TestACommit:
    def test_without_a_claim_it_writes_the_answer_under_no_token(self):
        database = Database()
        keyed = a_request(database)
        assert run(keyed.commit(Unit(database), "made", Unit(database).commit)) == 1  # type: ignore[arg-type]
        assert keyed.answer == StoredAnswer(200, "application/json", "made")

    def test_the_record_names_the_transaction_that_the_client_is_told_and_what_was_written(self):
        database = Database()
        unit = Unit(database)
        staged: list[KeyRecord] = []

        async def commit() -> int:
            staged.extend(unit.parts[KEYS].records)
            return 1

        run(a_request(database).commit(unit, "made", commit))  # type: ignore[arg-type]
        [record] = staged
        assert (record.transaction_id, record.entities, record.status) == ("t-1", ["e-1"], "DONE")
        assert (record.claim, record.token, record.node) == (None, NOBODY, "")
        assert record.kept_us == RETENTION // timedelta(microseconds=1)

    def test_that_has_written_nothing_leaves_no_answer(self):
        async def commit() -> None:
            """Nothing was staged but the record."""

        keyed = a_request(Database())
        run(keyed.commit(Unit(Database()), "made", commit))  # type: ignore[arg-type]
        assert (keyed.answer, keyed.is_claimed) == (None, False)

    def test_within_the_transaction_of_another_request_its_answer_is_known_before_that_is_durable(self):
        database = Database()
        outer = Unit(database)
        joined, keyed = Unit(database, parent=outer), a_request(database)
        assert run(keyed.commit(joined, "made", joined.commit)) is None  # type: ignore[arg-type]
        [record] = joined.parts[KEYS].records
        assert (record.transaction_id, keyed.answer is not None, database.record) == ("t-2", True, None)

    def test_a_chunk_within_the_transaction_of_another_request_is_not_recorded_before_the_last(self):
        database = Database()
        joined, keyed = Unit(database, parent=Unit(database)), a_request(database)
        run(commit_chunk(keyed, joined, "a"))
        assert (joined.parts, keyed.elements, keyed.is_claimed) == ({}, (), False)

    def test_an_answer_that_is_too_large_is_refused_before_anything_is_staged(self):
        database = Database()
        unit = Unit(database)
        with pytest.raises(BadRequest, match=f"{MAX_ANSWER_CHARS + 1} characters"):
            run(a_request(database).commit(unit, "x" * (MAX_ANSWER_CHARS + 1), unit.commit))  # type: ignore[arg-type]
        assert unit.parts == {}

    def test_a_result_is_converted_for_the_next_commit_only(self):
        database = Database()
        keyed = a_request(database)
        keyed.open_chunk((), encode, is_last=False, conclude=None)
        keyed.convert_results(lambda result: f"{result}!")

        async def play() -> None:
            unit = Unit(database)
            await keyed.commit(unit, "a", unit.commit)  # type: ignore[arg-type]
            await commit_chunk(keyed, unit, "b")

        run(play())
        assert keyed.elements == ("<a!>", "<b>")


class TestSegments:
    def test_a_segment_keeps_the_record_of_a_run_that_may_be_cut_off_for_days(self):
        database = Database()
        run(commit_segment(a_request(database), Unit(database)))
        assert database.record is not None
        assert database.record.is_segmented
        assert database.record.kept_us == INTERRUPTED_RETENTION // timedelta(microseconds=1)

    def test_an_attempt_with_a_segment_does_not_begin_again(self):
        database = Database()
        keyed = a_request(database)
        run(commit_segment(keyed, Unit(database)))
        with pytest.raises(IllegalMove):
            keyed.restart()
        assert keyed.is_partly_durable

    def test_an_attempt_that_begins_again_has_another_token(self):
        keyed = a_request(Database())
        first = keyed.token
        keyed.restart()
        assert keyed.token != first

    @pytest.mark.parametrize("is_kept", [True, False])
    def test_the_failure_behind_a_segment_is_stored_with_the_event_that_tells_it(self, is_kept: bool):
        database = Database()
        keyed, unit = a_request(database), Unit(database)
        failure = WorkflowFailed("the processor said no")

        async def play() -> Failure:
            await commit_segment(keyed, unit)
            if is_kept:
                keyed.keep_event("event", {})  # type: ignore[arg-type]
            return await keyed.settle_failure(unit, failure)  # type: ignore[arg-type]

        told = run(play())
        assert keyed.answer == FORMAT.failure(failure)
        assert told is failure
        assert not told.is_on_record, "operators were not told by this"

    def test_a_failure_that_tells_of_no_outcome_is_not_stored(self):
        database = Database()
        keyed, unit = a_request(database), Unit(database)

        async def play() -> None:
            await commit_segment(keyed, unit)
            for failure in (OutcomeUnknown("t-1"), IdempotencyClaimLost()):
                await keyed.settle_failure(unit, failure)  # type: ignore[arg-type]

        run(play())
        assert keyed.answer is None

    def test_a_failure_that_cannot_be_stored_still_reaches_its_client(self):
        database = Database()
        keyed, unit = a_request(database), Unit(database)

        async def play() -> Failure:
            await commit_segment(keyed, unit)
            database.is_away = True
            return await keyed.settle_failure(unit, WorkflowFailed("no"))  # type: ignore[arg-type]

        assert run(play()).message == "no"
        assert keyed.answer is None

    def test_a_chunk_whose_failure_is_told_as_a_result_is_answered_with_that(self):
        database = Database()
        keyed = a_request(database)

        async def play() -> None:
            await commit_chunk(keyed, Unit(database), "a")
            keyed.open_chunk([*keyed.elements], encode, is_last=True, conclude=lambda failure: ["<a>", failure.code])
            await keyed.commit_failure(None, WorkflowFailed("no"))

        run(play())
        assert keyed.answer == StoredAnswer(200, "application/json", "['<a>', 'WORKFLOW_FAILED']")


class TestAClientThatLeaves:
    @pytest.mark.parametrize("begun", ["nothing", "claim", "segment"])
    @pytest.mark.parametrize("end", ["answer", "failure", "defect"])
    def test_the_record_tells_what_became_of_the_work_it_left(self, begun: str, end: str):
        database = Database()
        keyed, unit = a_request(database), Unit(database)

        async def work() -> None:
            if begun == "claim":
                await keyed.prepare_callout()
            if begun == "segment":
                await commit_segment(keyed, unit)
            keyed.leave()
            if end == "answer":
                await keyed.commit(unit, "made", unit.commit)  # type: ignore[arg-type]
            else:
                raise WorkflowFailed("no") if end == "failure" else ValueError("a defect")

        async def play() -> None:
            try:
                await keyed.follow(work())
            except (WorkflowFailed, ValueError):
                assert end != "answer"

        run(play())
        answers = {
            "answer": StoredAnswer(200, "application/json", "made"),
            "failure": FORMAT.failure(WorkflowFailed("no")),
            "defect": FORMAT.defect(ValueError("a defect")),
        }
        if end == "answer" or begun == "segment":
            assert database.record is not None
            assert database.record.answer == answers[end]
        else:
            assert database.record is None
        assert keyed.is_over

    def test_while_the_client_waits_the_failure_is_left_to_who_answers_it(self):
        database = Database()
        keyed = a_request(database)

        async def work() -> None:
            await commit_segment(keyed, Unit(database))
            raise WorkflowFailed("no")

        with pytest.raises(WorkflowFailed):
            run(keyed.follow(work()))
        assert (keyed.answer, keyed.is_over) == (None, False)


class TestBeingOvertaken:
    def test_an_attempt_without_a_record_is_overtaken_by_one_with(self):
        database = Database()
        first, second = a_request(database), a_request(database)
        run(first.prepare_callout())
        assert (run(first.is_overtaken()), run(second.is_overtaken())) == (False, True)

    def test_where_the_database_is_away_nothing_is_claimed(self):
        database = Database()
        database.is_away = True
        assert not run(a_request(database).is_overtaken())

    def test_what_may_be_due_to_another_attempt_is_told_to_no_operator(self):
        database = Database()
        run(a_request(database).prepare_callout())
        late, unit = a_request(database), Unit(database)
        unit.id = unit.label
        failure = WorkflowFailed("no").amend(failed_run=object())  # type: ignore[arg-type]
        assert run(late.settle_failure(unit, failure)).is_on_record  # type: ignore[arg-type]

    def test_an_answer_is_amended_for_later_repeats(self):
        database = Database()
        keyed, unit = a_request(database), Unit(database)

        async def play() -> None:
            await keyed.commit(unit, "made", unit.commit)  # type: ignore[arg-type]
            await keyed.amend_answer("made, late")

        run(play())
        assert database.record is not None
        assert database.record.answer == keyed.answer == StoredAnswer(200, "application/json", "made, late")
