"""Importing entities from lines of JSON, each exactly once, however often the import is interrupted.

Every batch of lines is one transaction, and with the entities it creates a *marker*: an entity of the model
``statewright-import`` that says which import it belongs to and which lines it covers. So the markers alone say
what was imported, and they are always right: they were committed together with it. The id of an import is a digest of
the file, so the same file is the same import; a unique key on import and line makes sure that no two processes, and no
request that was believed lost, import the same lines.

Two kinds of lines: envelopes, as an export writes them, of which the document counts; and documents. The service gives
new ids and runs the workflow, as for every entity that is created.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from statewright.cli.transfer import MAX_ITEMS
from statewright.cli.transfer.files import CHUNK_BYTES, open_lines
from statewright.sdk import Client, Refused

MARKER: Final = "statewright-import/1"
MARKER_SAMPLE: Final = {"import": "i-0", "model": "m/1", "line": 5_000_000_000, "next": 5_000_000_000}
MARKER_KEY: Final = {"uniqueKeys": [{"id": "lines", "fields": ["$.import", "$.line"]}]}

MAX_BATCH_BYTES: Final = 8 << 20
"""Bytes of a batch; the service takes bodies of 10 MiB."""

_ITEM: Final = re.compile(r"\bitem (\d+): ")
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode

Progress = Callable[[int, int], None]
"""Called with the entities created since the last call, and the bytes of the file that are done."""


class LineRefused(ValueError):
    """A line cannot become an entity; nothing of its batch was imported."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")


class ImportResult(Struct, frozen=True, kw_only=True):
    """What an import has done in this run; ``before``: lines that earlier runs had imported."""

    created: int
    before: int


class _Batch:
    """Lines that are imported in one transaction."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.next = first
        self.items: list[bytes] = []
        self.lines: list[int] = []
        self.size = 0


class Importer:
    """One import of one file into one model (``name``, ``version``)."""

    def __init__(self, client: Client, name: str, version: int, *, import_id: str, batch: int) -> None:
        self._client = client
        self._model = {"name": name, "version": version}
        self._label = f"{name}/{version}"
        self._id = import_id
        self._max_items = min(batch, MAX_ITEMS)

    def run(self, path: Path, on_progress: Progress) -> ImportResult:
        """Import what is left of the file. Raises ``LineRefused``, ``CallFailed``, ``OSError``, ``EOFError``."""
        self._prepare_markers()
        before = next_line = self._find_next_line()
        created = 0
        with open_lines(path) as lines:
            for batch in self._iter_batches(lines, next_line):
                if batch.first >= next_line:
                    next_line = self._commit(batch)
                    created += len(batch.items) if next_line == batch.next else 0
                elif batch.next > next_line:
                    raise ValueError("somebody else imports the same file with batches of another size")
                on_progress(len(batch.items), lines.position)
        return ImportResult(created=created, before=before - 1)

    def _iter_batches(self, lines: Iterable[bytes], start: int) -> Iterator[_Batch]:
        batch = _Batch(start)
        for number, line in enumerate(lines, start=1):
            if number < start:
                continue
            item = self._build_item(number, line)
            if batch.items and (len(batch.items) >= self._max_items or batch.size + len(item) > MAX_BATCH_BYTES):
                yield batch
                batch = _Batch(number)
            if item:
                batch.items.append(item)
                batch.lines.append(number)
                batch.size += len(item)
            batch.next = number + 1
        if batch.items:
            yield batch

    def _build_item(self, number: int, line: bytes) -> bytes:
        """The item of a collection; empty for an empty line."""
        if not line.strip():
            return b""
        try:
            line = line.removeprefix(BOM_UTF8)  # with which editors begin files
            members = _decode_members(line)
            is_envelope = members.keys() == {"type", "data", "meta"} and bytes(members["type"]) == b'"ENTITY"'
            text = bytes(members["data"]) if is_envelope else line.strip()
            return _encode({"model": self._model, "payload": text.decode()})
        except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
            raise LineRefused(number, f"no JSON object: {malformed}") from malformed

    def _commit(self, batch: _Batch) -> int:
        """Create the entities of a batch; the line to go on with, which lies further on when another process imports
        too.
        """
        marker = {"import": self._id, "model": self._label, "line": batch.first, "next": batch.next}
        name, _, version = MARKER.rpartition("/")
        last = _encode({"model": {"name": name, "version": int(version)}, "payload": _encode(marker).decode()})
        try:
            self._client.fetch(
                "POST",
                "/entity/JSON",
                b"[" + b",".join([*batch.items, last]) + b"]",
                query={"transactionWindow": "1000"},
            )
        except Refused as refused:
            if refused.code == "UNIQUE_VIOLATION" and (done := self._find_next_line()) > batch.first:
                return done
            item = _ITEM.search(str(refused))
            if item is None or int(item[1]) >= len(batch.lines):
                raise LineRefused(batch.first, f"to {batch.next - 1}: {refused}") from refused
            raise LineRefused(batch.lines[int(item[1])], str(refused)) from refused
        return batch.next

    def _find_next_line(self) -> int:
        """The first line that no transaction has covered yet, as far as is committed."""
        query = {
            "groupBy": ["$.import"],
            "condition": {"type": "simple", "jsonPath": "$.import", "operatorType": "EQUALS", "value": self._id},
            "aggregations": [{"op": "max", "field": "$.next", "as": "next"}],
        }
        groups: Any = self._client.request("POST", f"/entity/stats/{MARKER}/query", query, only_asks=True)
        return int(groups[0]["aggregations"]["next"]) if groups else 1

    def _prepare_markers(self) -> None:
        """Create the model of markers and lock it, unless that is done; other processes may do so at the same time."""
        for method, path, body in (
            ("POST", f"/model/import/JSON/SAMPLE_DATA/{MARKER}", MARKER_SAMPLE),
            ("PUT", f"/model/{MARKER}/unique-keys", MARKER_KEY),
            ("PUT", f"/model/{MARKER}/lock", None),
        ):
            try:
                self._client.request(method, path, body)
            except Refused as refused:
                if refused.code != "MODEL_ALREADY_LOCKED":
                    raise


def compute_import_id(path: Path, model: str, on_progress: Callable[[int], None]) -> str:
    """The id of the import of a file into a model: a digest of both. ``on_progress`` is called with the bytes read."""
    digest = blake2b(model.encode() + b"\0", digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            on_progress(len(chunk))
    return f"i-{digest.hexdigest()}"
