"""What an attempt to deliver an event comes to (docs/reference/operations.md#delivery)."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from statewright.egress import HttpFailure, HttpResponse
from statewright.operations.events import EventPosition
from statewright.operations.subscriptions import PAUSES_S
from statewright.services.ops.attempts import MAX_REST_S, TURNS, AttemptNotes, DeliveryPace, judge
from statewright.services.ops.targets import read_answer
from statewright.storage.ops.subscriptions import Attempt, WaitingDelivery

NOW = datetime(2026, 3, 4, 8, 15, tzinfo=UTC)


def answered(status: int, number: int = 1, chance: float = 0.5, **headers: str) -> Attempt:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    response = HttpResponse(status=status, headers=named, body=b"so\0so", url="https://billing.example/")
    return judge(read_answer(response, NOW), number=number, duration_ms=7, chance=chance)


@pytest.mark.parametrize("status", [200, 204, 299])
def test_2xx_delivers(status: int) -> None:
    attempt = answered(status)
    assert (attempt.status, attempt.http_status, attempt.next_in_us, attempt.answer) == (
        "DELIVERED",
        status,
        None,
        "soso",
    )


@pytest.mark.parametrize("status", [301, 307, 400, 404, 500, 599])
def test_all_else_is_tried_again_after_longer_and_longer_pauses(status: int) -> None:
    pauses = [answered(status, number).next_in_us for number in range(1, 9)]
    assert pauses == [pause * 1_000_000 for pause in PAUSES_S]
    assert answered(status, 1, chance=0.0).next_in_us == 4_000_000
    assert answered(status, 1, chance=1.0).next_in_us == 6_000_000
    assert (answered(status, 9).status, answered(status, 9).next_in_us) == ("DEAD", None)


def test_no_answer_is_tried_again() -> None:
    failure = HttpFailure(reason="timed_out", detail="no response within 15 s")
    attempt = judge(read_answer(failure, NOW), number=2, duration_ms=15_000, chance=0.5)
    assert (attempt.status, attempt.http_status, attempt.next_in_us) == ("RETRYING", None, 30_000_000)
    assert attempt.error == "timed_out: no response within 15 s"


def test_who_is_gone_disables_the_subscription_and_keeps_the_event() -> None:
    attempt = answered(410, 9)
    assert (attempt.status, attempt.disables) == ("RETRYING", "the target answered 410")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        ("999999999999", 3600),
        ("Wed, 04 Mar 2026 08:16:00 GMT", 60),
        ("Wed, 04 Mar 2020 08:16:00 GMT", 0),
        ("soon", 5),
        ("0", 0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_who_is_busy_says_when(status: int, text: str, seconds: int) -> None:
    assert answered(status, retry_after=text).next_in_us == seconds * 1_000_000
    assert answered(status, 4, retry_after=text).next_in_us == max(seconds, PAUSES_S[3]) * 1_000_000
    assert answered(status, 8, retry_after=text).next_in_us == PAUSES_S[-1] * 1_000_000, "it is given up no sooner"
    assert answered(500, retry_after=text).next_in_us == 5_000_000
    assert answered(status, 9, retry_after=text).status == "DEAD"


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "-1",
        "Thu, 99 Jan 2026 99:99:99 GMT",
        "Thu, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Thu, 01 Jan 2026 00:00:00 +9999999999999999",
    ],
)
def test_a_time_that_is_none_counts_as_not_told(text: str) -> None:
    assert answered(503, retry_after=text).next_in_us == 5_000_000


def test_a_delivery_rests_for_longer_where_turns_of_the_event_loop_are_longer() -> None:
    pace = DeliveryPace()
    idle = [pace.find_rest(0.0001) for _ in range(8 * TURNS)][-1]
    assert 0.0 < idle <= 0.02
    assert pace.find_rest(0.001) < 2 * idle, "one long turn is little"
    rests = [pace.find_rest(0.001) for _ in range(8 * TURNS)]
    assert rests == sorted(rests)
    assert rests[-1] > 9 * idle
    assert [pace.find_rest(1.0) for _ in range(TURNS)][-1] == MAX_REST_S


class Database:
    """Notes attempts when it is let."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.lets = asyncio.Semaphore(0)
        self.failing: set[str] = set()
        self.lost: set[str] = set()

    async def write(self, came: Sequence[tuple[WaitingDelivery, Attempt]]) -> Sequence[str]:
        self.batches.append([one.id for one, _ in came])
        await self.lets.acquire()
        if self.failing.intersection(self.batches[-1]):
            raise OSError("away")
        return [one.id for one, _ in came if one.id not in self.lost]


def a_delivery(id_: str) -> WaitingDelivery:
    return WaitingDelivery(
        id=id_, position=EventPosition(1, "t", id_), type="t", attempt=0, again=False, next_at=0, row=None
    )


def add_all(notes: AttemptNotes, *ids: str) -> list["asyncio.Task[bool]"]:
    return [asyncio.create_task(notes.add(a_delivery(id_), answered(200))) for id_ in ids]


async def test_attempts_that_end_while_others_are_noted_are_noted_together() -> None:
    database = Database()
    database.lost = {"c"}
    notes = AttemptNotes(database.write)
    adding = add_all(notes, "a")
    await asyncio.sleep(0)
    adding += add_all(notes, "b", "c", "d")
    await asyncio.sleep(0)
    database.lets.release()
    database.lets.release()
    assert await asyncio.gather(*adding) == [True, True, False, True]
    assert database.batches == [["a"], ["b", "c", "d"]]


async def test_attempts_that_end_within_a_pause_are_noted_together() -> None:
    database = Database()
    pauses = [0.05]
    notes = AttemptNotes(database.write, lambda: pauses[0])
    adding = add_all(notes, "a")
    await asyncio.sleep(0)
    pauses[0] = 0.0
    adding += add_all(notes, "b", "c")
    database.lets.release()
    assert await asyncio.gather(*adding) == [True, True, True]
    assert database.batches == [["a", "b", "c"]]


async def test_what_has_ended_is_noted_before_its_pause_is_over() -> None:
    database = Database()
    notes = AttemptNotes(database.write, lambda: 3600.0)
    adding = add_all(notes, "a", "b")
    await asyncio.sleep(0)
    database.lets.release()
    await notes.flush()
    assert database.batches == [["a", "b"]]
    for task in adding:
        task.cancel()


async def test_what_could_not_be_noted_fails_for_all_of_its_batch_and_for_no_other() -> None:
    database = Database()
    notes = AttemptNotes(database.write)
    database.failing = {"b"}
    adding = add_all(notes, "a")
    await asyncio.sleep(0)
    adding += add_all(notes, "b", "c")
    await asyncio.sleep(0)
    database.lets.release()
    database.lets.release()
    came = await asyncio.gather(*adding, return_exceptions=True)
    assert [type(each) for each in came] == [bool, OSError, OSError]
    database.lets.release()
    assert await asyncio.gather(*add_all(notes, "d")) == [True]


async def test_when_a_run_ends_nobody_waits_for_what_is_being_noted() -> None:
    database = Database()
    notes = AttemptNotes(database.write)
    adding = add_all(notes, "a", "b")
    await asyncio.sleep(0)
    for task in adding:
        task.cancel()
    done, waiting = await asyncio.wait(adding, timeout=5)
    assert (len(done), len(waiting)) == (2, 0)
