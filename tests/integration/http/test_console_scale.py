"""What the pages of the console cost does not grow with what is stored (docs/console.md#budgets).

``STATEWRIGHT_TEST_CONSOLE_ENTITIES=1000000`` fills the tables with as many entities. Times are measured by
``python -m benchmarks.console``; here are calls, statements, rows and bytes.
"""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from benchmarks import console as bench
from benchmarks.console import Installation, Page

ENTITIES = int(os.environ.get("STATEWRIGHT_TEST_CONSOLE_ENTITIES", "5000"))
MODELS = 4
"""Fewer than fifty: each takes three requests to make. What grows with them is seen all the same."""


@pytest_asyncio.fixture
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    logs = tmp_path_factory.mktemp("console")
    async with bench.open_installation(models=MODELS, entities=ENTITIES, logs=logs, durable=False) as opened:
        yield opened


async def test_no_page_reads_a_whole_table_or_asks_for_each_row(installation: Installation) -> None:
    pages = await asyncio.to_thread(bench.choose_pages, installation.browser, ENTITIES)
    await installation.statements.switch(on=True)
    faults = list[str]()
    statements = 0
    for page in pages:
        reads = await bench.trace_page(installation, page)
        statements += len(reads)
        faults += bench.find_faults(page, reads)
        faults += await asyncio.to_thread(find_excess, installation, page)
    assert bench.MAX_ENTITY_ROWS < ENTITIES / 2, "whoever reads all of them must be seen"
    assert faults == []
    assert statements > len(pages), "the log was not read"
    assert await asyncio.to_thread(bench.measure_first_page, installation.browser) <= bench.MAX_FIRST_PAGE_BYTES


def find_excess(installation: Installation, page: Page) -> list[str]:
    """Calls and bytes of a page that are above its budget."""
    sample = bench.measure(installation.browser, page, 1, installation.cpu)
    faults = [f"{page.name}: {sample.calls} calls"] if sample.calls > bench.MAX_CALLS else []
    return faults + ([f"{page.name}: {sample.size} bytes"] if sample.size > bench.MAX_HTML_BYTES else [])
