"""Lists page by page: what all pages of lists of the operations API share (docs/console.md#pages)."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from statewright.console.calls import Reply
from statewright.console.request import InvalidField, Query, build_problem
from statewright.console.views.page import Problem
from statewright.instants import from_rfc3339

RowT = TypeVar("RowT")


class Filter(Struct, frozen=True):
    """A field above a list, named like the parameter of the API."""

    name: str
    label: str = ""
    example: str = ""


class ListView(Struct, Generic[RowT], frozen=True, kw_only=True):
    """A part of a list. ``next`` and ``first`` are addresses; None on the last page, and on the first one. ``scanned``:
    so many were looked at for it, where that is told.
    """

    rows: tuple[RowT, ...]
    query: Query
    next: str | None
    first: str | None
    filters: tuple[Filter, ...] = ()
    scanned: int = 0
    problem: Problem | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether anything was asked for."""
        return any(self.query.get(each.name) for each in self.filters)


def build_list(
    query: Query,
    found: Reply,
    rows: Sequence[RowT],
    *,
    filters: tuple[Filter, ...] = (),
    cursor: str = "after",
    retry: str | None = None,
) -> ListView[RowT]:
    """A part of a list from the answer of the API; a refusal is shown in its place, so that the filters stay.
    ``cursor`` is the parameter of the page that says where to go on.
    """
    following = found.next_cursor
    return ListView(
        rows=tuple(rows),
        query=query,
        next=query.change(**{cursor: following, "done": None}) if following else None,
        first=query.change(**{cursor: None, "done": None}) if query.get(cursor) else None,
        filters=filters,
        scanned=found.scanned,
        problem=None if found.is_ok else build_problem(found, retry=retry),
    )


def list_pages(query: Query, total: int) -> tuple[str | None, str | None]:
    """Of a list of ``/v1``, which goes by numbers of pages: where it goes on, and where it begins."""
    page = query.page()
    following = query.change(page=str(page + 1), done=None) if total > (page + 1) * query.size() else None
    return following, query.change(page=None, done=None) if page else None


def build_numbered_list(
    query: Query, found: Reply, rows: Sequence[RowT], *, filters: tuple[Filter, ...] = (), retry: str | None = None
) -> ListView[RowT]:
    """A page of such a list from the answer of the API."""
    following, first = list_pages(query, found.total)
    problem = None if found.is_ok else build_problem(found, retry=retry)
    return ListView(rows=tuple(rows), query=query, next=following, first=first, filters=filters, problem=problem)


ROWS: Final = 200
"""Of one page of a table that is long."""


class Slice(Struct, Generic[RowT], frozen=True, kw_only=True):
    """Some rows of a table, and where it goes on and begins."""

    rows: tuple[RowT, ...]
    total: int
    next: str | None
    first: str | None


def slice_rows(query: Query, rows: Sequence[RowT], anchor: str) -> Slice[RowT]:
    """The rows ``from`` a number on; ``anchor`` is the id of what they stand in. Raises ``InvalidField``."""
    start = query.get_number("from")
    return Slice(
        rows=tuple(rows[start : start + ROWS]),
        total=len(rows),
        next=f"{query.change(**{'from': str(start + ROWS)})}#{anchor}" if start + ROWS < len(rows) else None,
        first=f"{query.change(**{'from': None})}#{anchor}" if start else None,
    )


def read_filters(query: Query, filters: Sequence[Filter]) -> dict[str, str | None]:
    """What was asked for, as parameters of the API. Raises ``InvalidField`` for what is no instant."""
    wanted = {each.name: query.get(each.name).strip() or None for each in filters}
    for name, value in wanted.items():
        if value is not None and name in ("atFrom", "atTo") and from_rfc3339(value) is None:
            raise InvalidField(name, "an instant such as 2026-03-04T09:00:00Z")
    return wanted
