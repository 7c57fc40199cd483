"""How long failed jobs rest before they can be claimed again: ``metadata.retryBackoff`` of a definition
(docs/reference/steps.md#backoff).

Metadata are the author's own, so what has another shape there has no effect; it is a warning.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from statewright.jsonval.quoting import quote
from statewright.jsonval.values import JsonValue
from statewright.net.durations import parse_delay
from statewright.processes.retries import Backoff
from statewright.steps.definition import Definition

RETRY_BACKOFF: Final = "retryBackoff"

ANY_TYPE: Final = "*"

MAX_PAUSE_S: Final = 30 * 86_400


def find_backoff(definition: Definition, job_type: str, retries: int) -> Backoff | None:
    """The backoff of a job type, whose steps have so many ``retries``; None: there is none."""
    declared = (definition.metadata or {}).get(RETRY_BACKOFF)
    if not isinstance(declared, dict):
        return None
    source = declared[job_type] if job_type in declared else declared.get(ANY_TYPE)
    try:
        return None if source is None else _parse(source, retries)
    except ValueError:
        return None


def list_misfits(definition: Definition) -> tuple[str, ...]:
    """What stands in ``metadata.retryBackoff`` and has no effect."""
    declared = (definition.metadata or {}).get(RETRY_BACKOFF)
    if declared is None:
        return ()
    if not isinstance(declared, dict):
        return (f"metadata.{RETRY_BACKOFF} has no effect: it must be an object",)
    known = {step.job_type for step in definition.steps if step.type == "SERVICE_TASK"} | {ANY_TYPE}
    found = []
    for job_type, source in declared.items():
        place = f"metadata.{RETRY_BACKOFF} {quote(job_type)} has no effect"
        if job_type not in known:
            found.append(f"{place}: no step has such jobs")
        try:
            _parse(source, 0)
        except ValueError as misfit:
            found.append(f"{place}: {misfit}")
    return tuple(found)


def _parse(source: JsonValue, retries: int) -> Backoff:
    """Raises ``ValueError``."""
    if not isinstance(source, dict):
        raise ValueError("it must be an object")  # noqa: TRY004 - one kind of finding
    fields: dict[str, float] = {}
    for name, value in source.items():
        if name not in _MEMBERS:
            raise ValueError(f"{quote(name)} is unknown")
        field, read = _MEMBERS[name]
        fields[field] = read(name, value)
    return Backoff(retries=retries, **fields)


def _read_seconds(name: str, value: JsonValue) -> float:
    delay = parse_delay(value) if isinstance(value, str) else None
    if delay is None or delay.months or delay.microseconds > MAX_PAUSE_S * 1_000_000:
        raise ValueError(f"{name} must be an ISO 8601 duration up to P30D, without months")
    return delay.microseconds / 1_000_000


def _read_number(name: str, value: JsonValue, least: int, most: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not least <= value <= most:
        raise ValueError(f"{name} must be a number from {least} to {most}")
    return float(value)


_MEMBERS: Final[Mapping[str, tuple[str, Callable[[str, JsonValue], float]]]] = {
    "delay": ("delay_s", _read_seconds),
    "maxDelay": ("max_delay_s", _read_seconds),
    "factor": ("factor", lambda name, value: _read_number(name, value, 1, 10)),
    "jitter": ("jitter", lambda name, value: _read_number(name, value, 0, 1)),
}
