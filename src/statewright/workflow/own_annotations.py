"""The annotations that the service itself reads: the member ``statewright``
(docs/reference/workflows.md#annotations-of-the-service).
"""

from collections.abc import Iterator
from typing import Final

from statewright.conditions import Function
from statewright.jsonval.values import JsonValue
from statewright.workflow.definition import Criterion
from statewright.workflow.retries import MalformedRetry, parse_retry

OWN: Final = "statewright"


def find_own_violations(annotations: JsonValue, *, takes_retry: bool) -> Iterator[str]:
    """What is wrong with the service's own part of annotations; each begins with the path of the member."""
    own = annotations.get(OWN) if isinstance(annotations, dict) else None
    if own is None:
        return
    if not isinstance(own, dict):
        yield f"{OWN} must be a JSON object"
        return
    for name, value in own.items():
        if name == "retry" and takes_retry:
            yield from _find_retry_violations(value, f"{OWN}.retry")
        elif name == "retry":
            yield f"{OWN}.retry is for processors and for criteria that are functions"
        else:
            yield f"{OWN}.{name} is unknown"


def is_asked(criterion: Criterion | None) -> bool:
    """Whether a member decides the criterion, so that asking it can be tried again."""
    return criterion is not None and isinstance(criterion.condition, Function)


def _find_retry_violations(source: JsonValue, place: str) -> Iterator[str]:
    try:
        parse_retry(source)
    except MalformedRetry as malformed:
        yield f"{place}{'.' if malformed.member else ''}{malformed.member} {malformed}"
