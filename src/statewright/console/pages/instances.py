"""Instances of all process languages in one list, and what can be done to one: one call of the API each
(docs/console.md#pages).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from statewright.console import process_languages
from statewright.console.acts import (
    Read,
    Suspendable,
    ask,
    build_acts,
    fill_path,
    lead_to,
    read_number,
    read_object,
    read_text,
    read_text_if_any,
    read_value,
    send,
)
from statewright.console.calls import ApiCall, Parameters, Reply, build_ops_call, pick_members
from statewright.console.pages.listing import list_pages
from statewright.console.process_languages import STEPS, ProcessLanguage, find_language, list_statuses
from statewright.console.request import Action, Form, Navigation, Page, PageContext, Query, Routes, build_problem
from statewright.console.views.page import Confirmation, Problem, View, encode_segment
from statewright.console.views.records import InstanceFailure, InstanceRecord
from statewright.jsonval.codec import encode
from statewright.operations.explanations import ExplainedInstance


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


PAGE: Final = "/console/instances/{instance}"


def _move(move: str, **body: Read) -> Callable[[Form], ApiCall]:
    """A call of the instance, in whatever language it is."""

    def build(form: Form) -> ApiCall:
        language = find_language(form.require("language"))
        return send("POST", f"{language.nouns.instances_path}/{{instance}}/{move}", body)(form)

    return build


def _read_reason(form: Form, name: str) -> str | UnsetType:
    """Of JSON steps alone one is kept."""
    return form.require(name) if form.get("language") == STEPS.code else UNSET


async def _explain(request: PageContext, form: Form) -> ExplainedInstance:
    reply = await request.call_one(build_ops_call("instances", form.require("instance"), "explain"))
    return reply.read(ExplainedInstance)


async def _confirm_cancel(request: PageContext, form: Form) -> Confirmation:
    explained = await _explain(request, form)
    return Confirmation(
        question=f"Cancel instance {form.require('instance')} of {explained.definition_id}?",
        details=(describe_withdrawn(explained), "It cannot be taken back."),
        back=fill_path(PAGE, form),
        needs_reason=find_language(form.require("language")) is STEPS,
    )


def describe_withdrawn(explained: ExplainedInstance) -> str:
    """What a cancellation takes away, in a sentence."""
    kinds = [token.waits_for for token in explained.tokens]
    counted = (
        (kinds.count("JOB"), "job", "jobs"),
        (kinds.count("USER_TASK"), "task", "tasks"),
        (kinds.count("SIGNAL"), "wait for a signal", "waits for signals"),
        (len(explained.timers), "timer", "timers"),
    )
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counted if count]
    if not parts:
        return "Nothing of it is under way."
    total = sum(count for count, _, _ in counted)
    words = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{words} {'is' if total == 1 else 'are'} withdrawn."


async def _tell_failure(request: PageContext, form: Form) -> Mapping[str, str]:
    failure = pick_members((await _explain(request, form)).failure, InstanceFailure)
    return {"failure": f"It failed: {failure.reason}" if failure.reason else ""}


async def _tell_suspension(request: PageContext, form: Form) -> Mapping[str, str]:
    explained = await _explain(request, form)
    timers = len(explained.timers)
    return {
        "subject": f"instance {form.require('instance')} of {explained.definition_id}",
        "timers": f"{timers} timers stop." if timers else "It has no timer.",
    }


ACTS: Final[Routes] = (
    Action(
        "cancel_instance",
        "Cancel instance",
        _move("cancel", reason=_read_reason),
        lead_to(PAGE),
        _confirm_cancel,
        is_dangerous=True,
    ),
    Action(
        "terminate_instance",
        "Terminate instance",
        _move("terminate"),
        lead_to(PAGE),
        ask(
            "Terminate instance {instance}?",
            "Tasks that run are left to end, and no other begins. It can be restarted. Once more stops it at once.",
            back=PAGE,
        ),
        is_dangerous=True,
    ),
    Action(
        "restart_instance",
        "Restart instance",
        _move("restart"),
        lead_to(PAGE),
        ask(
            "Restart instance {instance}?",
            "{failure}",
            "What failed begins again with the same input; what is done is not done again.",
            back=PAGE,
            tell=_tell_failure,
        ),
    ),
    Action("evaluate_tokens", "Look at tokens", _move("evaluate"), lead_to(PAGE)),
    Action(
        "retry_step",
        "Retry step",
        send("POST", "/v1/instances/{instance}/steps/{step}/retry", {"variables": read_object}),
        lead_to(PAGE),
    ),
    Action(
        "signal_instance",
        "Signal instance",
        send("POST", "/v1/instances/{instance}/signals/{step}", lambda form: encode(read_object(form, "variables"))),
        lead_to(PAGE),
    ),
    Action(
        "change_node_input",
        "Change input",
        send("POST", "/v1/flows/instances/{instance}/change", {"node": read_number, "input": read_value}),
        lead_to(PAGE),
    ),
    Action(
        "patch_context",
        "Change context",
        send("POST", "/v1/executions/{instance}/patch", {"ctx": read_object, "reason": read_text_if_any}),
        lead_to(PAGE),
    ),
    Action(
        "inject_token",
        "Put in a token",
        send("POST", "/v1/executions/{instance}/tokens", {"step": read_text, "args": read_object}),
        lead_to(PAGE),
    ),
    *build_acts(
        Suspendable(
            name="instance",
            noun="instance",
            read_target=lambda form: {"scope": "INSTANCE", "id": form.require("instance")},
            subject="instance {instance}",
            page=PAGE,
            effects=(
                "{timers}",
                "Its jobs are not handed out. Results of jobs that a worker has already count, and lead no further.",
            ),
            tell=_tell_suspension,
        )
    ),
)


ROUTES: Final[Routes] = (
    Page(
        name="instances",
        path="/console/instances",
        show=show_instances,
        navigation=Navigation("Processes", "Instances", "n"),
    ),
    *ACTS,
)
