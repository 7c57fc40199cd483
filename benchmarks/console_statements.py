"""What a page asks the database, from the log of an embedded server, and what each statement reads, from its plan.

The server has no ``pg_stat_statements``. So it logs all statements while pages are opened; those that come with every
one of some requests are the page's, the others belong to background duties. Each is then explained with the arguments
that it had, which carries it out once more: so rows are counted, not estimated.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec
from msgspec import Struct

REQUESTS: Final = 3
"""That a statement has to come with."""

GROWING: Final = frozenset({"entity", "entity_history", "entity_audit"})
"""Tables that are never to be read from their beginning. For others the number of rows tells."""

_ENTRY: Final = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \w+ \[(\d+)\] (\w+):  ", re.MULTILINE)
_EXECUTE: Final = re.compile(r"duration: [\d.]+ ms  (?:execute [^:]+|statement): (.*)", re.DOTALL)
_READS: Final = re.compile(r"(?:\s|--[^\n]*\n)*(?:SELECT|WITH)\b", re.IGNORECASE)
_ARGUMENT: Final = re.compile(r"\$\d+ = ('(?:[^']|'')*'|NULL)")
_SCANS: Final = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan", "Tid Range Scan")


class Sent(Struct, frozen=True):
    """A statement as it was executed; the arguments are literals."""

    text: str
    arguments: tuple[str, ...]


class Read(Struct, frozen=True, kw_only=True):
    """What one statement of a page reads. ``times``: how often it is sent for one page."""

    text: str
    times: int
    rows: Mapping[str, int]
    """By table."""
    whole: frozenset[str]
    """Growing tables that are read from their beginning."""


class StatementLog:
    """The log of an embedded server, while it has all statements."""

    def __init__(self, connection: asyncpg.Connection, log: Path) -> None:
        self._connection = connection
        self._log = log

    async def switch(self, *, on: bool) -> None:
        """Log all statements from now on, or none."""
        await self._connection.execute(f"ALTER SYSTEM SET log_min_duration_statement = {0 if on else -1}")
        await self._connection.execute("SELECT pg_reload_conf()")

    async def trace(self, request: Callable[[], object]) -> list[Read]:
        """What the statements read that come with every one of some requests, the most often sent first."""
        begin = self._log.stat().st_size
        for _ in range(REQUESTS):
            await asyncio.to_thread(request)
        with self._log.open("rb") as file:
            file.seek(begin)
            sent = list(parse_log(file.read().decode(errors="replace")))
        counts = Counter(each.text for each in sent)
        last = {each.text: each for each in sent}
        return [
            await self._explain(last[text], count // REQUESTS)
            for text, count in counts.most_common()
            if count >= REQUESTS and _READS.match(text)
        ]

    async def _explain(self, sent: Sent, times: int) -> Read:
        arguments = f"({', '.join(sent.arguments)})" if sent.arguments else ""
        rows: Counter[str] = Counter()
        whole = set[str]()
        await self._connection.execute(f"PREPARE probe AS {sent.text}")
        try:
            async with self._connection.transaction(readonly=True):
                await self._connection.execute("SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off")
                text = await self._connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE probe{arguments}")
        except asyncpg.ReadOnlySQLTransactionError:
            return Read(text=sent.text, times=times, rows={}, whole=frozenset())  # it writes
        finally:
            await self._connection.execute("DEALLOCATE probe")
        for node in _walk(msgspec.json.decode(text)[0]["Plan"]):
            _count(node, rows, whole)
        return Read(text=sent.text, times=times, rows=dict(rows), whole=frozenset(whole))


def parse_log(text: str) -> Iterator[Sent]:
    """The statements that were executed, with their arguments."""
    pending: dict[str, str] = {}
    pieces = _ENTRY.split(text)[1:]
    for process, kind, content in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        if kind == "LOG":
            if process in pending:
                yield Sent(pending.pop(process), ())
            found = _EXECUTE.match(content)
            if found is not None:
                pending[process] = found[1].rstrip("\n")
        elif kind == "DETAIL" and process in pending:
            yield Sent(pending.pop(process), tuple(_ARGUMENT.findall(content)))
    for rest in pending.values():
        yield Sent(rest, ())


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", ()):
        yield from _walk(each)


def _count(node: dict[str, Any], rows: "Counter[str]", whole: set[str]) -> None:
    """Add what a node of a plan reads; those that were never carried out read nothing."""
    table, loops = node.get("Relation Name"), node["Actual Loops"]
    if table is None or node["Node Type"] not in _SCANS or not loops:
        return
    passed = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    rows[table] += round(passed * loops)
    if node["Node Type"] == "Seq Scan" and table in GROWING:
        whole.add(table)
