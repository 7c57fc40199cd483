"""Measure the pages of the web console beside a million entities: ``python -m benchmarks.console``.

An installation of fifty models is filled straight into its tables; then one client opens each page over and over, on
one connection. Reported are the time to the end of the answer, the time of the template (as the service tells it in
``Server-Timing``), processor time of service and database, calls of the API, and bytes as they are sent. The budgets are
those of docs/console.md#budgets; where other programs use the machine, processor time is held against them. Then the
database logs what each page asks it, and every statement is explained with its arguments: none may read a whole table,
or be sent for each row.
"""

import argparse
import asyncio
import gzip
import http.client
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import asyncpg
import psutil
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.console_data import MAIN, SAMPLE, define_models, fill
from benchmarks.console_statements import Read, StatementLog
from benchmarks.processes import HOST, Disturbance, ProcessorTime, Starter, free_ports, service_settings
from benchmarks.search_cases import simple
from statewright.storage.embedded import server
from statewright.storage.embedded.data_directory import DataDirectory

MODELS: Final = 50
READY_WITHIN_S: Final = 60.0
BUDGET_MS: Final = 30.0
TEMPLATE_BUDGET_MS: Final = 8.0
MAX_CALLS: Final = 8
MAX_HTML_BYTES: Final = 30_000
MAX_FIRST_PAGE_BYTES: Final = 100_000
MAX_TIMES: Final = 4
"""That one statement may be sent for a page; more would be one for each row."""
MAX_ROWS: Final = 10_000
"""That a statement may read: no count has a higher bound."""
MAX_ENTITY_ROWS: Final = 1_000
"""The same of entities, versions and events, of which no page counts any but what it shows."""
ENTITY_TABLES: Final = ("entity", "entity_history", "entity_audit")


class Page(Struct, frozen=True, kw_only=True):
    """What is opened. ``is_keyed``: by an index or an id, so that the budget of time holds for it. ``warm_up`` is how
    often it is opened before.
    """

    name: str
    path: str
    is_keyed: bool = True
    warm_up: int = 1


class Sample(Struct, frozen=True, kw_only=True):
    """One page: milliseconds per request, bytes as sent."""

    rounds: list[float]
    templates: list[float]
    service_ms: float
    database_ms: float
    calls: int
    size: int

    def get_percentile(self, share: float) -> float:
        """Of the times of all rounds."""
        return sorted(self.rounds)[int(len(self.rounds) * share)]

    @property
    def template_ms(self) -> float:
        return sorted(self.templates)[int(len(self.templates) * 0.95)]


class Browser:
    """One connection to the service, as a browser would use it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection(HOST, port, timeout=60)

    def open(self, path: str) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer to a page, read to its end; raises unless it is one."""
        try:
            self._connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            answer = self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            self._connection.close()
            return self.open(path)
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {_unzip(answer, body)[:2000]}")
        return answer, body

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The API's answer to a request that must succeed."""
        self._connection.request(method, f"/api{path}", b"" if body is None else json.dumps(body).encode())
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:2000]!r}")
        return json.loads(content) if content else None


def _unzip(answer: http.client.HTTPResponse, body: bytes) -> str:
    return (gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body).decode()


def list_pages(entity: str, next_page: str, number: int) -> list[Page]:
    """What is measured. ``next_page`` is the path of the second page of the list."""
    model, part = f"/console/models/{MAIN}/1", "/console/part"
    indexed = urlencode({"q": json.dumps(simple("$.number", "EQUALS", number))})
    state = urlencode(
        {"q": json.dumps({"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "NEW"})}
    )
    plain = urlencode({"q": json.dumps(simple("$.customer", "EQUALS", "c17"))})
    return [
        Page(name="home", path="/console/"),
        Page(name="home: what is wrong", path=f"{part}/status"),
        Page(name="home: nodes and rates", path=f"{part}/activity"),
        Page(name="home: the oldest", path=f"{part}/idle", is_keyed=False),
        Page(name="counts of a model, kept", path=f"{part}/models/{MAIN}/1/counts", warm_up=10),
        Page(name="models", path="/console/models"),
        Page(name="model", path=model),
        Page(name="model: marks", path=f"{part}/models/{MAIN}/1/marks"),
        Page(name="model: schema", path=f"{model}/schema"),
        Page(name="model: indexes", path=f"{model}/indexes"),
        Page(name="model: settings", path=f"{model}/settings"),
        Page(name="workflow", path=f"{model}/workflows/fulfilment"),
        Page(name="workflow: marks", path=f"{part}/models/{MAIN}/1/workflows/fulfilment/marks"),
        Page(name="entities", path=f"{model}/entities"),
        Page(name="entities: next page", path=f"{model}/entities{next_page}"),
        Page(name="entities: indexed condition", path=f"{model}/entities?{indexed}"),
        Page(name="entities: a common state", path=f"{model}/entities?{state}"),
        Page(name="entities: no index", path=f"{model}/entities?{plain}", is_keyed=False),
        Page(name="entities: counted", path=f"{model}/entities?{indexed}&count=1"),
        Page(name="entities: further ones", path=f"{part}/models/{MAIN}/1/entities/news?since=1"),
        Page(name="entity", path=f"/console/entities/{entity}"),
        Page(name="entity: now", path=f"{part}/entities/{entity}/now"),
        Page(name="entity: timeline", path=f"/console/entities/{entity}/timeline"),
        Page(name="entity: versions", path=f"/console/entities/{entity}/versions"),
        Page(name="incidents", path="/console/incidents"),
        Page(name="incidents: list", path="/console/incidents/list"),
        Page(name="workers", path="/console/workers"),
        Page(name="instances", path="/console/instances"),
        Page(name="find an id", path=f"/console/find?q={quote('no such thing')}"),
    ]


class Installation(Struct, frozen=True, kw_only=True):
    """A service beside a full database."""

    port: int
    browser: Browser
    connection: asyncpg.Connection
    statements: StatementLog
    cpu: tuple[ProcessorTime, ProcessorTime]
    """Of the service and of the database."""


@asynccontextmanager
async def open_installation(
    *, models: int, entities: int, logs: Path, durable: bool = True
) -> AsyncIterator[Installation]:
    """Start and fill everything; it is gone after the block."""
    async with AsyncExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statewright-console-")))
        database = await stack.enter_async_context(server.run_embedded_server(files / "data", durable=durable))
        port, grpc, admin = free_ports(3)
        variables = service_settings(database, http=port, grpc=grpc, admin=admin)
        program = str(Path(sys.executable).with_name("statewright"))
        service = await Starter(stack, logs)("service", program, "serve", variables=variables)
        browser = await asyncio.to_thread(_wait_until_ready, port)
        stack.callback(browser.close)
        names = await asyncio.to_thread(define_models, browser.ask, models)
        browser.close()  # to be opened anew: the service does not keep what is idle for as long as filling takes
        connection = await asyncpg.connect(database, timeout=60, statement_cache_size=0)
        stack.push_async_callback(connection.close)
        await fill(connection, names, entities)
        await asyncio.to_thread(_declare_index, browser, "$.number")
        postgres = next(each for each in psutil.Process().children(recursive=True) if each.name() == "postgres")
        yield Installation(
            port=port,
            browser=browser,
            connection=connection,
            statements=StatementLog(connection, DataDirectory(files / "data").log),
            cpu=(ProcessorTime(psutil.Process(service.pid)), ProcessorTime(postgres)),
        )


async def run(options: argparse.Namespace, logs: Path, console: Console) -> bool:
    """Whether all budgets are kept."""
    began = time.monotonic()
    async with open_installation(models=options.models, entities=options.entities, logs=logs) as installation:
        await installation.connection.execute("CHECKPOINT", timeout=600)
        console.print(f"{options.entities:,} entities in {time.monotonic() - began:.0f} s")
        all_pages = await asyncio.to_thread(choose_pages, installation.browser, options.entities)
        pages = [page for page in all_pages if options.only in page.name]
        faults = await asyncio.to_thread(_measure_all, installation, pages, options.rounds, console)
        faults += await _trace_all(installation, pages, console)
    for fault in faults:
        console.print(f"[bold red]MISSED[/] {fault}")
    return not faults


async def _trace_all(installation: Installation, pages: Sequence[Page], console: Console) -> list[str]:
    table = Table("page", "statements", "most of one", "rows read of entities", "of incidents", title="The database")
    faults = []
    await installation.statements.switch(on=True)
    for page in pages:
        reads = await trace_page(installation, page)
        rows = [sum(read.rows.get(name, 0) for read in reads) for name in ("entity", "incident")]
        counts = sum(read.times for read in reads), max((read.times for read in reads), default=0)
        table.add_row(page.name, *(f"{figure:,}" for figure in (*counts, *rows)))
        faults += find_faults(page, reads)
    await installation.statements.switch(on=False)
    console.print(table)
    return faults


async def trace_page(installation: Installation, page: Page) -> list[Read]:
    """What a page reads, once it is warm."""
    await asyncio.to_thread(installation.browser.open, page.path)
    return await installation.statements.trace(lambda: installation.browser.open(page.path))


def find_faults(page: Page, reads: Sequence[Read]) -> list[str]:
    """Statements that go through a whole table, come for each row, or read without a bound."""
    faults = []
    for read in reads:
        short = " ".join(read.text.split())[:160]
        if page.is_keyed and read.times > MAX_TIMES:
            faults.append(f"{page.name}: {read.times} times {short}")
        if page.is_keyed and read.whole:
            faults.append(f"{page.name}: all of {', '.join(sorted(read.whole))} by {short}")
        faults += [
            f"{page.name}: {rows:,} rows of {table} by {short}"
            for table, rows in read.rows.items()
            if page.is_keyed and rows > (MAX_ENTITY_ROWS if table in ENTITY_TABLES else MAX_ROWS)
        ]
    return faults


def choose_pages(browser: Browser, entities: int) -> list[Page]:
    """The pages, with an entity that has versions, and the second page of the list."""
    answer, body = browser.open(f"/console/models/{MAIN}/1/entities")
    [following] = re.findall(r'<a rel="next" href="([^"]+)"', _unzip(answer, body))
    return list_pages(_make_entity(browser), following.replace("&amp;", "&"), entities // 2)


def _wait_until_ready(port: int) -> Browser:
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            browser = Browser(port)
            browser.ask("GET", "/health")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return browser


def _measure_all(installation: Installation, pages: Sequence[Page], rounds: int, console: Console) -> list[str]:
    disturbance, browser = Disturbance(), installation.browser
    samples = {
        page: measure(browser, page, rounds if page.is_keyed else max(3, rounds // 10), installation.cpu)
        for page in pages
    }
    others = disturbance.share()
    faults = _show(console, samples, is_quiet=others <= report.QUIET)
    first = measure_first_page(browser)
    console.print(f"First page with everything it loads: {first:,} bytes of {MAX_FIRST_PAGE_BYTES:,}.")
    judged = "times by the clock" if others <= report.QUIET else "processor time of service and database"
    report.show_machine(console, others)
    console.print(f"Judged are {judged}.")
    return faults + ([f"first page: {first:,} bytes"] if first > MAX_FIRST_PAGE_BYTES else [])


def _make_entity(browser: Browser) -> str:
    """An entity with some versions."""
    [created] = browser.ask("POST", f"/entity/JSON/{MAIN}/1", SAMPLE)
    entity: str = created["entityIds"][0]
    for amount in range(20):
        browser.ask("PUT", f"/entity/JSON/{entity}", {**SAMPLE, "amount": amount})
    browser.ask("PUT", f"/entity/JSON/{entity}/PAY", SAMPLE)
    return entity


def _declare_index(browser: Browser, path: str) -> None:
    browser.ask("POST", f"/model/{MAIN}/1/index", {"path": path})
    while True:
        [index] = browser.ask("GET", f"/model/{MAIN}/1/index")
        if index["status"] == "READY":
            return
        if index["status"] == "FAILED":
            raise RuntimeError(str(index))
        time.sleep(0.2)


def measure(browser: Browser, page: Page, rounds: int, cpu: Sequence[ProcessorTime]) -> Sample:
    """Open a page over and over."""
    for _ in range(page.warm_up):
        browser.open(page.path)
    times, templates = list[float](), list[float]()
    calls, size = 0, 0
    before = [each() for each in cpu]
    for _ in range(rounds):
        began = time.perf_counter()
        answer, body = browser.open(page.path)
        times.append((time.perf_counter() - began) * 1000)
        told = answer.headers["Server-Timing"]
        calls = int(re.findall(r'calls;desc="(\d+)"', told)[0])
        templates.append(float(re.findall(r"template;dur=([\d.]+)", told)[0]))
        size = len(body)
    service, database = (each() - start for each, start in zip(cpu, before, strict=True))
    return Sample(
        rounds=times,
        templates=templates,
        service_ms=service * 1000 / rounds,
        database_ms=database * 1000 / rounds,
        calls=calls,
        size=size,
    )


def measure_first_page(browser: Browser) -> int:
    """Bytes of home and of all files that it names."""
    answer, body = browser.open("/console/")
    html = _unzip(answer, body)
    files = re.findall(r'<(?:script|link)[^>]* (?:src|href)="(/console/static/[^"]+)"', html)
    return len(body) + sum(len(browser.open(file)[1]) for file in files)


def _show(console: Console, samples: dict[Page, Sample], *, is_quiet: bool) -> list[str]:
    """The table; what is above its budget."""
    columns = "page", "p50 ms", "p95 ms", "template p95", "service CPU ms", "database CPU ms", "calls", "bytes", ""
    table = Table(*columns, title="Pages of the console")
    faults = []
    for page, sample in samples.items():
        p95 = sample.get_percentile(0.95)
        judged = p95 if is_quiet else sample.service_ms + sample.database_ms
        missed = [
            text
            for text, is_over in (
                (f"{judged:.1f} ms", page.is_keyed and judged > BUDGET_MS),
                (f"template {sample.template_ms:.1f} ms", sample.template_ms > TEMPLATE_BUDGET_MS),
                (f"{sample.calls} calls", sample.calls > MAX_CALLS),
                (f"{sample.size:,} bytes", sample.size > MAX_HTML_BYTES),
            )
            if is_over
        ]
        faults += [f"{page.name}: {text}" for text in missed]
        figures = sample.get_percentile(0.5), p95, sample.template_ms, sample.service_ms, sample.database_ms
        verdict = "[bold red]MISSED" if missed else "met" if page.is_keyed else ""
        table.add_row(
            page.name, *(f"{figure:,.1f}" for figure in figures), str(sample.calls), f"{sample.size:,}", verdict
        )
    console.print(table)
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description="Measure pages of the console.")
    parser.add_argument("--entities", type=int, default=1_000_000, help="of all models (%(default)s)")
    parser.add_argument("--models", type=int, default=MODELS, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=100, help="times that each page is opened (%(default)s)")
    parser.add_argument("--only", default="", help="pages with this in their name")
    with tempfile.TemporaryDirectory(prefix="statewright-bench-logs-") as logs:
        is_met = uvloop.run(run(parser.parse_args(), Path(logs), Console(width=160)))
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
