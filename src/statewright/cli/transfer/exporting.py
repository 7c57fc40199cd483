"""Exporting all entities of a model as they were at one instant, a line of JSON each, in ascending order of id.

Every line is the envelope as the service sends it, byte for byte. It carries the id and the instant, so the last whole
line of an unfinished file is all that is needed to go on: what is written then is what would have been written.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from statewright.cli.transfer.files import append, cut_to_whole_lines
from statewright.sdk import Client

FIRST_PAGE: Final = 50
MAX_PAGE: Final = 5_000
"""Entities of the first page and of the largest one."""
PAGE_BYTES: Final = 4 << 20
"""Bytes that a page should have; the size of the page before says how many entities these are."""

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _Meta(Struct, rename="camel"):
    id: str
    point_in_time: str


class _Envelope(Struct):
    meta: _Meta


_decode_envelope = msgspec.json.Decoder(_Envelope).decode

Progress = Callable[[int, int], None]
"""Called with the entities and the bytes written since the last call."""


class ExportResult(Struct, frozen=True):
    """What an export has written, in all its runs; ``resumed``: whether an earlier run had begun it."""

    instant: str
    entities: int
    resumed: bool


def export_entities(
    client: Client, model: str, path: Path, *, instant: str | None, on_progress: Progress
) -> ExportResult:
    """Write the entities of a model to a file that does not exist yet; ``model`` is its part of a URL.

    An unfinished file beside it (``.part``) is continued, at its own instant. Raises ``CallFailed``, ``OSError``,
    ``FileExistsError``, and ``ValueError`` for an unfinished file that is something else.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    part = path.with_name(path.name + ".part")
    last = cut_to_whole_lines(part) if part.exists() else None
    after: str | None = None
    if last is not None:
        after, instant = _read_mark(last, part)
    else:
        part.write_bytes(b"")
        instant = instant or _take_instant(client, model)
    written = _write(client, model, partial(append, part), instant, after, on_progress)
    part.rename(path)
    return ExportResult(instant, written, last is not None)


def print_entities(
    client: Client, model: str, output: BinaryIO, *, instant: str | None, on_progress: Progress
) -> ExportResult:
    """Write the entities of a model to an output that is read at once, and cannot be gone on with. Raises
    ``CallFailed``, ``OSError``.
    """
    instant = instant or _take_instant(client, model)
    written = _write(client, model, output.write, instant, None, on_progress)
    output.flush()
    return ExportResult(instant, written, resumed=False)


def _write(
    client: Client,
    model: str,
    append_lines: Callable[[bytes], object],
    instant: str,
    after: str | None,
    on_progress: Progress,
) -> int:
    written, size = 0, FIRST_PAGE
    while True:
        query = {"pointInTime": instant, "pageSize": str(size)} | ({} if after is None else {"afterId": after})
        page = client.fetch("GET", f"/entity/{model}", query=query).body
        lines = [bytes(item) for item in _decode_items(page)]
        if lines:
            append_lines(b"\n".join(lines) + b"\n")
            after = _decode_envelope(lines[-1]).meta.id
            written += len(lines)
            on_progress(len(lines), len(page))
        if len(lines) < size:
            return written
        size = max(1, min(MAX_PAGE, 2 * size, size * PAGE_BYTES // len(page)))


def _read_mark(line: bytes, part: Path) -> tuple[str, str]:
    try:
        meta = _decode_envelope(line).meta
    except msgspec.DecodeError as foreign:
        raise ValueError(f"{part} is no unfinished export: remove it") from foreign
    return meta.id, meta.point_in_time


def _take_instant(client: Client, model: str) -> str:
    """The present instant, not later than the clock of the service: a later one would mean *now* at each request."""
    answer = client.fetch("GET", f"/entity/{model}", query={"pageSize": "0"})
    now = datetime.now(UTC)
    answered_at = parsedate_to_datetime(answer.headers["date"]) if "date" in answer.headers else now
    if now - answered_at > timedelta(seconds=2):
        now = answered_at + timedelta(seconds=1)  # our clock is ahead; the service gives whole seconds
        time.sleep(1)
    return now.isoformat().replace("+00:00", "Z")
