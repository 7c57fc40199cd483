"""Work that may have ended a node is done one piece at a time."""

import asyncio

from statewright.services.takings import Suspects


async def test_who_only_looks_is_waited_for_and_who_works_is_not() -> None:
    suspects, gate = Suspects(), asyncio.Event()

    async def find_nothing() -> str | None:
        await gate.wait()
        return None

    async def find() -> str | None:
        return "found"

    looking = asyncio.create_task(suspects.begin(find_nothing))
    finding = asyncio.create_task(suspects.begin(find))
    await asyncio.sleep(0)
    assert not finding.done()
    gate.set()
    assert (await looking, await finding) == (None, "found")
    assert await suspects.begin(find) is None
    suspects.end()
    assert await suspects.begin(find) == "found"


async def test_of_many_that_look_at_once_one_works() -> None:
    suspects = Suspects()

    async def find() -> str | None:
        await asyncio.sleep(0)
        return "found"

    found = await asyncio.gather(*[suspects.begin(find) for _ in range(10)])
    assert found.count("found") == 1


async def test_a_look_that_fails_leaves_the_way_free() -> None:
    suspects = Suspects()

    async def fail() -> str | None:
        raise ConnectionError

    async def find() -> str | None:
        return "found"

    assert [type(one) for one in await asyncio.gather(suspects.begin(fail), return_exceptions=True)] == [
        ConnectionError
    ]
    assert await suspects.begin(find) == "found"
