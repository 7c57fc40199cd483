"""What an upgrade may change of the answers, and whether anything else did."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.builders import Json

DIFFERENCES: Final = (
    (r"GET /search/async/[^/]+/status", "/body/expirationDate", "the test keeps results of searches for ever"),
    (r"GET .*", "/body/instance", "982cdd4 left the context path out"),
    (r"GET .*", "/body/type", "982cdd4 had no page of help per error"),
    (
        r"GET /v1/instances/[^/]+/history",
        r"/body/items/\d+/([Dd]efinition(ID|Id|Name)|[Ss]tepName)",
        "entries of histories name step and definition since then",
    ),
    (r"GET /v1/user-tasks.*", r"/body/items/\d+/language", "the inbox has tasks of all languages since then"),
)
"""Request and place in the answer, as regular expressions that match the whole, and the reason."""

MODEL_LISTS: Final = ("GET /model/", "GET /entity/stats", "GET /entity/stats/states")
BUILT_IN: Final = ("StepUserTask", "StepWorkflowDefinition", "StepWorkflowInstance")
"""Models that earlier states had in those lists, which are for models of users; what they hold is read at ``/v1``."""


def find_differences(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    """Each place that an answer differs in, as one line; those of :data:`DIFFERENCES` are left out."""
    found = [
        (request, *difference)
        for request in sorted({*before, *after})
        for difference in _compare(_list_users(request, before), _list_users(request, after), "")
    ]
    return [
        f"{request} {place}: {old!r} -> {new!r}" for request, place, old, new in found if not _is_meant(request, place)
    ]


def _list_users(request: str, answers: Mapping[str, Json]) -> Json:
    """An answer without the models of the service, where it is a list of models."""
    answer = answers.get(request)
    if request not in MODEL_LISTS or answer is None:
        return answer
    return answer | {"body": [entry for entry in answer["body"] if entry["modelName"] not in BUILT_IN]}


def _is_meant(request: str, place: str) -> bool:
    return any(re.fullmatch(asked, request) and re.fullmatch(where, place) for asked, where, _ in DIFFERENCES)


def _compare(old: Json, new: Json, place: str) -> Iterator[tuple[str, Json, Json]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _compare(old.get(name, "absent"), new.get(name, "absent"), f"{place}/{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _compare(one, other, f"{place}/{number}")
    elif old != new:
        yield place, old, new
