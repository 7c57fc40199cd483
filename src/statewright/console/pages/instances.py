"""Instances of all process languages in one list (docs/console.md#pages)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.console import process_languages
from statewright.console.calls import ApiCall, Parameters, Reply
from statewright.console.pages.listing import list_pages
from statewright.console.process_languages import ProcessLanguage, find_language, list_statuses
from statewright.console.request import Navigation, Page, PageContext, Query, Routes, build_problem
from statewright.console.views.page import Problem, View, encode_segment
from statewright.console.views.records import InstanceRecord


class InstanceRow(Struct, frozen=True):
    """A line of the list."""

    language: ProcessLanguage
    record: InstanceRecord


class InstancesView(Struct, frozen=True, kw_only=True):
    """The list, and what it was asked for. Without a language it is the newest of each."""

    query: Query
    statuses: tuple[str, ...]
    rows: tuple[InstanceRow, ...]
    next: str | None
    first: str | None
    more_in: tuple[tuple[str, str], ...]
    """Where a list of several languages goes on: the name of the language, and the address."""
    problems: tuple[tuple[str, Problem], ...]
    languages: tuple[ProcessLanguage, ...]

    @property
    def is_filtered(self) -> bool:
        """Whether it was asked for some only."""
        return any(self.query.get(name) for name in ("definition", "status", "businessKey"))


async def show_instances(request: PageContext) -> View:
    """Instances, newest first."""
    query, code = request.query, request.query.get("language")
    known = process_languages.LANGUAGES
    chosen = (find_language(code),) if code else known
    wanted = query.get_choice("status", ("", *list_statuses(known)))
    asked = [language for language in chosen if not wanted or wanted in language.nouns.statuses]
    replies = await request.call(*(_build_call(query, language, wanted) for language in asked))
    if code and replies:
        replies[0].require()
    return view_instances(query, list(zip(asked, replies, strict=True)))


def _build_call(query: Query, language: ProcessLanguage, status: str) -> ApiCall:
    asked: Parameters = {
        language.nouns.definition_member: query.get("definition") or None,
        language.nouns.status_member: status or None,
        "businessKey": query.get("businessKey") or None,
        "page": query.page() or None if query.get("language") else None,
        "pageSize": query.size(),
    }
    return language.call_instances(query=asked)


def view_instances(query: Query, found: Sequence[tuple[ProcessLanguage, Reply]]) -> View:
    """The list from the answers of the API, one of each language."""
    rows = [InstanceRow(language, each) for language, reply in found for each in reply.pick_items(InstanceRecord)]
    rows.sort(key=lambda row: row.record.id, reverse=True)
    code, size = query.get("language"), query.size()
    following, first = list_pages(query, max((reply.total for _, reply in found), default=0)) if code else (None, None)
    more = [language for language, reply in found if reply.total > size]
    if len(rows) > size:
        more = [language for language, _ in found if any(row.language is language for row in rows[size:])] or more
    data = InstancesView(
        query=query,
        statuses=list_statuses((find_language(code),) if code else process_languages.LANGUAGES),
        languages=process_languages.LANGUAGES,
        rows=tuple(rows[:size]),
        next=following,
        first=first,
        more_in=() if code else tuple((each.title, query.change(language=each.code, done=None)) for each in more),
        problems=tuple((language.title, build_problem(reply)) for language, reply in found if not reply.is_ok),
    )
    return View(title="Instances", data=data)


def build_instance_path(instance: str) -> str:
    """The path of the page of an instance."""
    return f"/console/instances/{encode_segment(instance)}"


ROUTES: Final[Routes] = (
    Page(
        name="instances",
        path="/console/instances",
        show=show_instances,
        navigation=Navigation("Processes", "Instances", "n"),
    ),
)
