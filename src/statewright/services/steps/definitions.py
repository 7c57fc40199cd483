"""Definitions: upload, read, list, draw (spec/step-engine.md §3, §11.2)."""

from msgspec import Struct

from statewright.failures import NotImplementedHere
from statewright.services.runtime import Caller, Runtime
from statewright.steps.core import Definition, Process


class Uploaded(Struct, frozen=True, kw_only=True):
    """What an upload came to. ``is_new`` is False when a stored version has the same content; it is named then."""

    id: str
    version: int
    name: str
    uploaded_at: int
    """Epoch microseconds, of the version that is named."""
    is_new: bool
    warnings: tuple[str, ...]
    """What is allowed but looks like a mistake."""


class Published(Struct, frozen=True, kw_only=True):
    """One stored version of a definition, compiled. Render it with ``steps.core.writing.to_document``."""

    process: Process
    uploaded_at: int

    @property
    def definition(self) -> Definition:
        return self.process.definition

    @property
    def version(self) -> int:
        return self.process.version


class Summary(Struct, frozen=True, kw_only=True):
    """A definition in a list: its latest version, and all there are."""

    id: str
    version: int
    name: str
    description: str
    uploaded_at: int
    versions: tuple[int, ...]
    """Ascending."""


class Summaries(Struct, frozen=True, kw_only=True):
    """A page of definitions by ascending id. ``total`` counts all ids that match."""

    items: tuple[Summary, ...]
    page: int
    page_size: int
    total: int


async def upload(runtime: Runtime, caller: Caller, source: bytes | str | Definition) -> Uploaded:
    """Store a definition as its next version, unless a stored one has the same content.

    ``source`` is the text that was posted, or a definition that came in another form (gRPC); refusals are worded for
    the one or the other (§3.2). Concurrent uploads of one id all succeed. Raises ``StepBadRequest``.
    """
    raise NotImplementedHere("steps")


async def published(runtime: Runtime, caller: Caller, definition_id: str, version: int = 0) -> Published:
    """A version of a definition, the latest for 0 or less. Raises ``StepNotFound`` (``definition not found``)."""
    raise NotImplementedHere("steps")


async def listing(
    runtime: Runtime, caller: Caller, *, keyword: str = "", page: int = 0, page_size: int = 0
) -> Summaries:
    """One summary per id whose latest name or id contains ``keyword``, whatever the case.

    ``page`` counts from zero, a negative one is 0; ``page_size`` of 0 or less is 20, at most 1,000 (§11).
    """
    raise NotImplementedHere("steps")


async def diagram(runtime: Runtime, caller: Caller, definition_id: str, version: int = 0) -> str:
    """The definition in Mermaid's flowchart notation. Raises ``StepNotFound``."""
    raise NotImplementedHere("steps")
