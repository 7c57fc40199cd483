"""All entities of a model as they were at one instant, a line of JSON each, in ascending order of id.

Every line is the envelope as the service sends it, byte for byte. It carries the id and the instant, so the last whole
line of an unfinished file is all that is needed to go on: what is written then is what would have been written.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from statewright.transfer.files import append, cut_to_whole_lines
from statewright.transfer.session import Session

FIRST_PAGE = 50
LARGEST_PAGE = 5_000
PORTION = 4 << 20
"""Bytes that a page should have; how many entities these are is learnt from the page before."""

_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _Meta(Struct, rename="camel"):
    id: str
    point_in_time: str


class _Envelope(Struct):
    meta: _Meta


_envelope = msgspec.json.Decoder(_Envelope).decode

Progress = Callable[[int, int], None]
"""Told how many entities, and how many bytes, were written since it was last told."""


class Exported(Struct, frozen=True):
    """What an export has written, in all its runs: ``resumed`` says that there was one before."""

    instant: str
    entities: int
    resumed: bool


def export(session: Session, model: str, path: Path, *, instant: str | None, tell: Progress) -> Exported:
    """Write the entities of a model to a file that does not exist yet; ``model`` is its part of a URL.

    An unfinished file beside it (``.part``) is gone on with, at its own instant. Raises ``Refused``, ``OSError``,
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
        instant = instant or _now(session, model)
    written = _write(session, model, part, instant, after, tell)
    part.rename(path)
    return Exported(instant, written, last is not None)


def _write(session: Session, model: str, part: Path, instant: str, after: str | None, tell: Progress) -> int:
    written, size = 0, FIRST_PAGE
    while True:
        query = {"pointInTime": instant, "pageSize": size} | ({} if after is None else {"afterId": after})
        page = session("GET", f"/entity/{model}?{urlencode(query)}")
        lines = [bytes(item) for item in _items(page)]
        if lines:
            append(part, b"\n".join(lines) + b"\n")
            after = _envelope(lines[-1]).meta.id
            written += len(lines)
            tell(len(lines), len(page))
        if len(lines) < size:
            return written
        size = max(1, min(LARGEST_PAGE, 2 * size, size * PORTION // len(page)))


def _read_mark(line: bytes, part: Path) -> tuple[str, str]:
    try:
        meta = _envelope(line).meta
    except msgspec.DecodeError as foreign:
        raise ValueError(f"{part} is no unfinished export: remove it") from foreign
    return meta.id, meta.point_in_time


def _now(session: Session, model: str) -> str:
    """This instant; not later than at the service, or it would be read as *now*, and differently each time."""
    session("GET", f"/entity/{model}?pageSize=0")
    now = datetime.now(UTC)
    if session.said_at is not None and now - session.said_at > timedelta(seconds=2):
        now = session.said_at + timedelta(seconds=1)  # our clock is ahead; theirs is told in whole seconds
        time.sleep(1)
    return now.isoformat().replace("+00:00", "Z")
