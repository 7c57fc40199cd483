"""Answers that are made alike for several process languages: pages, uploads, summaries, lines of histories."""

from collections.abc import Sequence
from typing import Protocol

from statewright.api.http.processes.bodies import reply, reply_by_size
from statewright.api.http.response import Response
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.changes import Execution
from statewright.services.processes.definitions import Summaries, Summary
from statewright.services.processes.instances import AbridgedInstance


class CountedPage(Protocol):
    """A page of a list, and how long the list is."""

    @property
    def page(self) -> int: ...

    @property
    def page_size(self) -> int: ...

    @property
    def total(self) -> int: ...


async def reply_page(items: Sequence[JsonValue], page: CountedPage) -> Response:
    """A page of instances, runs or tasks, which may be large."""
    listed = list(items)
    return await reply_by_size({"items": listed, "total": page.total, "page": page.page, "pageSize": page.page_size})


def reply_summaries(found: Summaries, id_member: str) -> Response:
    """A page of definitions; ``id_member`` is what the language calls their ids."""
    items: list[JsonValue] = [_describe_summary(summary, id_member) for summary in found.items]
    return reply({"items": items, "page": found.page, "pageSize": found.page_size, "total": found.total})


def reply_versions(found: Sequence[tuple[int, int]]) -> Response:
    """All versions of a definition, each with the instant of its upload."""
    items: list[JsonValue] = [{"version": version, "uploadedAt": format_instant(at)} for version, at in found]
    return reply({"items": items})


def reply_uploaded(summary: JsonObject, *, version: int, uploaded_at: int, is_new: bool) -> Response:
    """What an upload came to."""
    known: JsonObject = {"version": version, "uploadedAt": format_instant(uploaded_at), "isNew": is_new}
    return reply({**summary, **known}, 201)


def describe_abridged(instance: AbridgedInstance, *, definition_member: str, status_member: str) -> JsonObject:
    """An instance in a list of which others were large."""
    optional: JsonObject = {
        "completedAt": None if instance.completed_at is None else format_instant(instance.completed_at),
        "businessKey": instance.business_key,
    }
    return {
        "id": instance.id,
        definition_member: instance.definition_id,
        status_member: instance.status,
        "startedAt": format_instant(instance.started_at),
        "abridged": True,
        **{name: value for name, value in optional.items() if value is not None},
    }


def describe_line(line: Execution, place: JsonObject) -> JsonObject:
    """A line of a history; ``place`` says at which node it was."""
    optional: JsonObject = {
        "element": line.element,
        "endedAt": None if line.ended_at is None else format_instant(line.ended_at),
        "failureReason": line.failure_reason,
        "valuesOmitted": line.are_values_omitted or None,
        "input": line.input_snapshot,
        "output": line.output_snapshot,
    }
    return {
        "id": line.id,
        **place,
        "attempt": line.attempt_number,
        "status": line.status,
        "startedAt": format_instant(line.started_at),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _describe_summary(summary: Summary, id_member: str) -> JsonObject:
    return {
        id_member: summary.id,
        "version": summary.version,
        "name": summary.name,
        "description": summary.description,
        "uploadedAt": format_instant(summary.uploaded_at),
        "versions": list(summary.versions),
    }
