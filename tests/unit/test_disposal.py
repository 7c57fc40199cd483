"""Large values are freed a few items at a time, when nobody uses them any more."""

import asyncio
import weakref
from collections.abc import Callable

import pytest

from statewright.jsonval.values import JsonValue
from statewright.loop.background import Disposer
from statewright.loop.turns import Container, take_apart, use_once


class Watched(dict[str, JsonValue]):
    """An object of which it can be told whether it was freed."""


def test_a_value_is_taken_apart_to_its_last_part():
    inner = Watched(a=[1])
    freed = weakref.ref(inner)
    values: list[Container] = [{"v": [[inner], *range(10_000)], "w": {}}]
    del inner
    take_apart(values)
    assert values == []
    assert freed() is None


def test_parts_that_are_used_elsewhere_stay_as_they_are():
    used: JsonValue = {"a": [1, 2]}
    take_apart([{"v": [used, [used]]}, [used]])
    assert used == {"a": [1, 2]}


def test_however_deep_a_value_is_it_is_freed():
    value: Container = []
    for _ in range(100_000):
        value = [value]
    values = [value]
    del value
    take_apart(values)
    assert values == []


def test_a_list_of_values_is_not_empty_before_they_are_freed():
    """Who looks at it from another thread knows by that whether there is something left."""
    inner = Watched()
    left = list[bool]()
    weakref.finalize(inner, lambda: left.append(bool(values)))
    values: list[Container] = [{"v": [inner]}]
    del inner
    take_apart(values)
    assert left == [True]
    assert values == []


def test_what_is_used_once_is_taken_apart_also_when_that_fails():
    value: JsonValue = {"a": [1], "b": {"c": 2}}
    kept = use_once(value, lambda used: used["b"])  # type: ignore[call-overload, index]
    assert (value, kept) == ({}, {"c": 2})
    refused: list[JsonValue] = [[1], [2]]
    with pytest.raises(ZeroDivisionError):
        use_once(refused, lambda used: len(used) / 0)
    assert refused == []
    assert use_once("text", len) == 4


async def test_a_value_is_freed_as_soon_as_nobody_uses_it():
    begun = asyncio.Event()

    def run(free: Callable[[], None]) -> None:
        free()
        begun.set()

    inner = Watched()
    freed, value = weakref.ref(inner), [inner]
    del inner
    disposer = Disposer(run)
    disposer.add(value)
    await asyncio.sleep(0.2)
    assert not begun.is_set(), "it is still used"
    assert value[0] is freed()
    del value
    async with asyncio.timeout(20):
        await begun.wait()
    assert freed() is None


async def test_a_value_that_is_handed_over_twice_is_freed_as_soon():
    done = asyncio.Event()

    def run(free: Callable[[], None]) -> None:
        free()
        done.set()

    inner = Watched()
    freed, value = weakref.ref(inner), [inner]
    del inner
    disposer = Disposer(run)
    disposer.add(value)
    disposer.add(value)
    del value
    async with asyncio.timeout(20):
        await done.wait()
    assert freed() is None
