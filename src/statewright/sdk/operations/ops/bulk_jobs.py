"""One operation on many entities (docs/reference/operations.md#bulk-jobs)."""

from collections.abc import Mapping, Sequence

import msgspec

from statewright.jsonval.values import JsonValue
from statewright.operations import bulk_jobs, suspensions, table
from statewright.sdk.exchange import Items, make_method
from statewright.sdk.operations.calls import Operation, Page, Script
from statewright.sdk.operations.ops.work import read_list, request


def create(
    operation: bulk_jobs.BulkOperation,
    *,
    model: tuple[str, int] | None = None,
    condition: Mapping[str, JsonValue] | None = None,
    ids: Sequence[str] | None = None,
    incidents: Mapping[str, JsonValue] | None = None,
    transition: str | None = None,
    merge_patch: Mapping[str, JsonValue] | None = None,
    json_patch: Sequence[JsonValue] | None = None,
    force: bool | None = None,
    dry_run: bool = False,
    recheck: bool = False,
    rate_per_second: int = 50,
    concurrency: int = 4,
    stop_after_failures: int | None = None,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Operation[bulk_jobs.BulkJob]:
    """Do one thing to all entities of a ``model``, by name and version, that match, to those of these ``ids``, or to
    the open ``incidents`` that the filters of their list choose, such as ``{"kind": ["RUN_FAILED"]}``. With ``dry_run``
    they are judged, and the job waits for its start. For operators.
    """
    body = bulk_jobs.BulkOrder(
        operation=operation,
        model=None if model is None else suspensions.NamedModel(name=model[0], version=model[1]),
        condition=None if condition is None else dict(condition),
        ids=None if ids is None else list(ids),
        incidents=None if incidents is None else msgspec.convert(dict(incidents), bulk_jobs.IncidentSelection),
        arguments=bulk_jobs.BulkArguments(
            transition=transition,
            merge_patch=None if merge_patch is None else dict(merge_patch),
            json_patch=None if json_patch is None else list(json_patch),
            force=force,
        ),
        dry_run=dry_run,
        recheck=recheck,
        rate_per_second=rate_per_second,
        concurrency=concurrency,
        stop_after_failures=stop_after_failures,
        reason=reason,
    )
    return request(table.CREATE_BULK_JOB, body=body, key=idempotency_key)


def start(
    job_id: str, *, expected_count: int | None = None, idempotency_key: str | None = None
) -> Operation[bulk_jobs.BulkJob]:
    """Let a job run that was judged, if it has as many items as are expected. For operators."""
    return request(
        table.START_BULK_JOB, job_id, body=bulk_jobs.BulkStart(expected_count=expected_count), key=idempotency_key
    )


def pause(job_id: str, *, idempotency_key: str | None = None) -> Operation[bulk_jobs.BulkJob]:
    """Begin with no further items; answers when none is under way, or after half a minute. For operators."""
    return request(table.PAUSE_BULK_JOB, job_id, body={}, key=idempotency_key)


def resume(job_id: str, *, idempotency_key: str | None = None) -> Operation[bulk_jobs.BulkJob]:
    """Go on with a job that was paused, or has stopped, as the caller. For operators."""
    return request(table.RESUME_BULK_JOB, job_id, body={}, key=idempotency_key)


def cancel(job_id: str, *, idempotency_key: str | None = None) -> Operation[bulk_jobs.BulkJob]:
    """End a job; what is done stays. For operators."""
    return request(table.CANCEL_BULK_JOB, job_id, body={}, key=idempotency_key)


def retry_failed(job_id: str, *, idempotency_key: str | None = None) -> Operation[bulk_jobs.BulkJob]:
    """A new job over the items that failed. For operators."""
    return request(table.RETRY_BULK_JOB, job_id, body={}, key=idempotency_key)


def change(
    job_id: str,
    *,
    rate_per_second: int | None = None,
    concurrency: int | None = None,
    idempotency_key: str | None = None,
) -> Operation[bulk_jobs.BulkJob]:
    """Let a job run at another pace. For operators."""
    body = bulk_jobs.BulkPace(rate_per_second=rate_per_second, concurrency=concurrency)
    return request(table.CHANGE_BULK_JOB, job_id, body=body, key=idempotency_key)


def get(job_id: str) -> Operation[bulk_jobs.BulkJob]:
    """The job with its totals. For operators."""
    return request(table.GET_BULK_JOB, job_id)


def list_all(*, status: Sequence[bulk_jobs.BulkStatus] = ()) -> Script[Page[bulk_jobs.BulkJob]]:
    """Bulk jobs, newest first. For operators."""
    return read_list(table.LIST_BULK_JOBS, query={"status": status})


def list_items(
    job_id: str, *, status: Sequence[bulk_jobs.ItemStatus] = (), code: Sequence[str] = ()
) -> Script[Page[bulk_jobs.BulkItem]]:
    """The items of a job in their order. For operators."""
    return read_list(table.LIST_BULK_ITEMS, job_id, query={"status": status, "code": code})


class BulkMethods:
    """The methods of ``Client.bulk``."""

    list = Items(list_all)
    get = make_method(get)
    items = Items(list_items)
    create = make_method(create)
    start = make_method(start)
    pause = make_method(pause)
    resume = make_method(resume)
    cancel = make_method(cancel)
    retry_failed = make_method(retry_failed)
    change = make_method(change)
