"""Instances of all process languages in one list (docs/console.md#pages)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply
from statewright.console.pages.definitions import read_page
from statewright.console.process_languages import LANGUAGES, PLAYBOOKS, ProcessLanguage, find_language
from statewright.console.request import ConsoleRequest, Navigation, Page, Routes, build_problem
from statewright.console.views.page import Problem, View, encode_segment
from statewright.console.views.records import InstanceRecord

ALL_STATUSES: Final = tuple(dict.fromkeys(status for language in LANGUAGES for status in language.statuses))


class InstanceRow(Struct, frozen=True):
    """A line of the list."""

    language: ProcessLanguage
    record: InstanceRecord

    @property
    def definition(self) -> str:
        """Which definition it is of."""
        return self.record.path if self.language is PLAYBOOKS else self.record.definition_id

    @property
    def version(self) -> int:
        """That of the definition."""
        return self.record.version if self.language is PLAYBOOKS else self.record.definition_version

    @property
    def status(self) -> str:
        """How it is doing."""
        return self.record.state if self.language is PLAYBOOKS else self.record.status

    @property
    def at(self) -> tuple[str, ...]:
        """Where its tokens are."""
        return *self.record.current_step_ids, *self.record.active_steps


class InstancesView(Struct, frozen=True, kw_only=True):
    """The list, and what it was asked for. Without a language it is the newest of each."""

    language: str
    languages: tuple[ProcessLanguage, ...]
    definition: str
    status: str
    business_key: str
    statuses: tuple[str, ...]
    rows: tuple[InstanceRow, ...]
    next: str | None
    first: str | None
    more_in: tuple[tuple[str, str], ...]
    """Where a list of several languages goes on: the name of the language, and the address."""
    problems: tuple[tuple[str, Problem], ...]

    @property
    def is_filtered(self) -> bool:
        """Whether it was asked for some only."""
        return bool(self.definition or self.status or self.business_key)


async def show_instances(request: ConsoleRequest) -> View:
    """Instances, newest first."""
    code = request.query.get("language")
    chosen = (find_language(code),) if code else LANGUAGES
    page, size = read_page(request) if code else 0, request.query.size()
    wanted = request.query.get_choice("status", ("", *ALL_STATUSES))
    asked = [language for language in chosen if not wanted or wanted in language.statuses]
    replies = await request.call(*(_build_call(request, language, wanted, page, size) for language in asked))
    if code and replies:
        replies[0].require()
    return view_instances(request, list(zip(asked, replies, strict=True)), page, size)


def _build_call(request: ConsoleRequest, language: ProcessLanguage, status: str, page: int, size: int) -> ApiCall:
    query = {
        language.instance_member: request.query.get("definition") or None,
        language.status_filter: status or None,
        "businessKey": request.query.get("businessKey") or None,
        "page": page or None,
        "pageSize": size,
    }
    return language.call_instances(query=query)


def view_instances(
    request: ConsoleRequest, found: Sequence[tuple[ProcessLanguage, Reply]], page: int, size: int
) -> View:
    """The list from the answers of the API, one of each language."""
    query = request.query
    rows = [InstanceRow(language, each) for language, reply in found for each in reply.pick_items(InstanceRecord)]
    rows.sort(key=lambda row: row.record.id, reverse=True)
    code = query.get("language")
    more = [language for language, reply in found if reply.total > (page + 1) * size]
    if not code and len(rows) > size:
        more = [language for language, _ in found if any(row.language is language for row in rows[size:])] or more
    data = InstancesView(
        language=code,
        languages=LANGUAGES,
        definition=query.get("definition"),
        status=query.get("status"),
        business_key=query.get("businessKey"),
        statuses=find_language(code).statuses if code else ALL_STATUSES,
        rows=tuple(rows[:size]),
        next=query.change(page=str(page + 1), done=None) if code and more else None,
        first=query.change(page=None, done=None) if page else None,
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
