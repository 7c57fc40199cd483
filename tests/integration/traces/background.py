"""Requests that are under way while a test does something else."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from tests.builders import SAMPLE
from tests.service import PATIENCE_S, Api


@contextmanager
def approving(api: Api, entity: str, **headers: str) -> Iterator[Callable[[], httpx.Response]]:
    """The transition ``APPROVE`` is being fired while the block runs; gives what waits for the answer."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(api.put, f"/entity/JSON/{entity}/APPROVE", SAMPLE, **headers)
        yield lambda: answer.result(PATIENCE_S)
