"""Calls of a package, as they are counted in a service."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.trace_calls import CallTracer, Trace

SOURCE = """
import asyncio

def add(a, b):
    return a + b

def add_all(numbers):
    return [add(one, 1) for one in numbers]

async def wait():
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return add(1, 2)
"""


def load(path: Path) -> dict[str, Callable[..., object]]:
    """The functions of a module at a path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(SOURCE)
    functions: dict[str, Callable[..., object]] = {}
    exec(compile(SOURCE, str(path), "exec"), functions)
    return functions


def trace(tracer: CallTracer, *actions: Callable[[], object]) -> Trace:
    """What the actions call."""
    tracer.begin()
    sys.setprofile(tracer)
    try:
        for action in actions:
            action()
    finally:
        sys.setprofile(None)
    return tracer.end()


def test_calls_and_files_of_the_package_are_counted(tmp_path: Path) -> None:
    one, other = load(tmp_path / "a" / "one.py"), load(tmp_path / "a" / "other.py")
    outside = load(tmp_path.parent / f"{tmp_path.name}-outside.py")
    tracer = CallTracer(tmp_path / "a")
    found = trace(tracer, lambda: one["add"](1, 2), lambda: other["add_all"]([1, 2]), lambda: outside["add"](1, 2))
    assert found == Trace(frozenset({"one.py", "other.py"}), 4)
    assert trace(tracer, lambda: one["add"](1, 2)) == Trace(frozenset({"one.py"}), 1)


def test_a_coroutine_that_goes_on_is_not_called_again(tmp_path: Path) -> None:
    module = load(tmp_path / "a" / "one.py")

    async def run() -> None:
        await module["wait"]()  # type: ignore[misc]

    assert trace(CallTracer(tmp_path), lambda: asyncio.run(run())).calls == 2


def test_files_apart_do_not_count(tmp_path: Path) -> None:
    module = load(tmp_path / "proto" / "one.py")
    assert trace(CallTracer(tmp_path, ("proto/",)), lambda: module["add"](1, 2)) == Trace(frozenset(), 0)
