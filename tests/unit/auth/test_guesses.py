"""How fast secrets may be guessed (docs/reference/authentication.md#guesses)."""

import asyncio
import io
import threading

import pytest

from statewright.auth import ClientSecrets
from statewright.auth import clients as module
from statewright.auth.clients import (
    ADDRESS_ALLOWANCE,
    CLIENT_ALLOWANCE,
    FORGET_AFTER_S,
    MAX_SOURCES,
    Allowance,
    GuessLimiter,
    TooManyGuesses,
)
from statewright.settings import Secret
from statewright.telemetry import logs
from tests.unit.auth.builders import FixedClients, a_client


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


ALLOWANCE = Allowance(free_failures=2, simultaneous=3, first_pause_s=1, longest_pause_s=5)


def find_wait(limiter: GuessLimiter, name: str = "robot") -> float:
    try:
        limiter.require(name)
    except TooManyGuesses as excess:
        return excess.wait_s
    return 0


def test_pauses_begin_after_some_failures_and_double_up_to_a_limit():
    limiter, waits = GuessLimiter(ALLOWANCE, Clock()), list[float]()
    for _ in range(7):
        limiter.record_failure("robot")
        waits.append(find_wait(limiter))
    assert waits == [0, 0, 1, 2, 4, 5, 5]
    assert find_wait(limiter, "another") == 0


def test_a_pause_ends_and_the_next_failure_begins_a_longer_one():
    limiter, clock = GuessLimiter(ALLOWANCE, clock := Clock()), clock
    for _ in range(3):
        limiter.record_failure("robot")
    clock.now += 1
    assert find_wait(limiter) == 0
    limiter.record_failure("robot")
    assert find_wait(limiter) == 2


def test_a_success_and_a_long_silence_end_all_pauses():
    limiter, clock = GuessLimiter(ALLOWANCE, clock := Clock()), clock
    for name in ("robot", "other"):
        for _ in range(10):
            limiter.record_failure(name)
    limiter.record_success("robot")
    assert find_wait(limiter) == 0
    clock.now += FORGET_AFTER_S + 1
    assert find_wait(limiter, "other") == 0
    limiter.record_failure("other")
    assert find_wait(limiter, "other") == 0


def test_only_so_many_guesses_of_a_source_are_looked_at_at_once():
    limiter = GuessLimiter(ALLOWANCE, Clock())
    for _ in range(ALLOWANCE.simultaneous):
        limiter.require("robot")
        limiter.begin("robot")
    assert find_wait(limiter) == ALLOWANCE.first_pause_s
    limiter.end("robot")
    assert find_wait(limiter) == 0


def test_sources_that_strangers_invent_are_not_all_kept():
    limiter = GuessLimiter(ALLOWANCE, Clock())
    for number in range(MAX_SOURCES + 100):
        limiter.record_failure(str(number))
    assert len(limiter) == MAX_SOURCES


def test_the_log_is_told_once_when_the_pauses_of_a_source_begin():
    stream = io.BytesIO()
    logs.configure("info", "text", stream)
    limiter = GuessLimiter(ALLOWANCE, Clock())
    for _ in range(20):
        limiter.record_failure("robot")
    [line] = stream.getvalue().decode().splitlines()
    assert "msg=guesses_paused" in line
    assert "source=robot failures=3" in line


class Hashing:
    """Stands in for bcrypt: says who is right, counts, and waits until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self._open = 0, threading.Event()
        monkeypatch.setattr(module, "matches_hash", self.check)

    def check(self, secret: str, _stored: Secret) -> bool:
        self.count += 1
        assert self._open.wait(timeout=30)
        return secret == "hunter2"

    def go_on(self) -> None:
        self._open.set()


async def test_of_many_guesses_at_once_few_are_looked_at_and_the_known_secret_is_not_held_up(
    monkeypatch: pytest.MonkeyPatch,
):
    hashing, secrets = Hashing(monkeypatch), ClientSecrets(FixedClients(a_client()))
    first = asyncio.create_task(secrets.authenticate("robot", "hunter2", "192.0.2.1"))
    hashing.go_on()
    assert await first == a_client()
    hashing._open.clear()
    guesses = [asyncio.create_task(secrets.authenticate("robot", f"x{n}", "192.0.2.9")) for n in range(200)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert sum(guess.done() for guess in guesses) == 200 - CLIENT_ALLOWANCE.simultaneous
    assert await secrets.authenticate("robot", "hunter2", "192.0.2.9") == a_client()
    hashing.go_on()
    found = await asyncio.gather(*guesses, return_exceptions=True)
    assert sum(isinstance(verdict, TooManyGuesses) for verdict in found) == 200 - CLIENT_ALLOWANCE.simultaneous
    assert hashing.count == 1 + CLIENT_ALLOWANCE.simultaneous


async def test_guesses_at_many_clients_are_limited_by_their_address(monkeypatch: pytest.MonkeyPatch):
    hashing, secrets = Hashing(monkeypatch), ClientSecrets(FixedClients(a_client()))
    guesses = [asyncio.create_task(secrets.authenticate(f"c{n}", "x", f"2001:db8::{n:x}")) for n in range(200)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert sum(guess.done() for guess in guesses) == 200 - ADDRESS_ALLOWANCE.simultaneous
    other = asyncio.create_task(secrets.authenticate("robot", "hunter2", "192.0.2.1"))
    hashing.go_on()
    assert await other == a_client()
    await asyncio.gather(*guesses, return_exceptions=True)


async def test_the_same_secret_at_the_same_time_is_looked_at_once(monkeypatch: pytest.MonkeyPatch):
    hashing, secrets = Hashing(monkeypatch), ClientSecrets(FixedClients(a_client()))
    workers = [asyncio.create_task(secrets.authenticate("robot", "hunter2", "192.0.2.1")) for _ in range(50)]
    await asyncio.sleep(0)
    workers[0].cancel()  # its client has gone; the others still want to know
    hashing.go_on()
    assert set(await asyncio.gather(*workers[1:])) == {a_client()}
    assert hashing.count == 1


async def test_a_wrong_secret_that_is_sent_again_costs_and_counts_no_more(monkeypatch: pytest.MonkeyPatch):
    hashing, secrets = Hashing(monkeypatch), ClientSecrets(FixedClients(a_client()))
    hashing.go_on()
    for _ in range(50):
        assert await secrets.authenticate("robot", "outdated", "192.0.2.1") is None
    assert hashing.count == 1
    assert await secrets.authenticate("robot", "hunter2", "192.0.2.1") == a_client()


async def test_an_unknown_client_is_looked_at_as_often_as_a_known_one(monkeypatch: pytest.MonkeyPatch):
    hashing, secrets = Hashing(monkeypatch), ClientSecrets(FixedClients(a_client()))
    hashing.go_on()
    for client_id in ("robot", "nobody", "noone"):
        assert await secrets.authenticate(client_id, "x", "192.0.2.1") is None
    assert hashing.count == 3
