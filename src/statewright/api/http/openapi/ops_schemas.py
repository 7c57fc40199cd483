"""Schemas of the operations API. Objects are open: clients ignore members that they do not know."""

from typing import Final

from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    TEXT,
    UUID,
    Document,
    define_array,
    define_open_object,
    ref,
)

_MAP: Final = {"type": "object", "additionalProperties": True}
_ACTOR: Final = define_open_object("id kind", id=TEXT, kind={"type": "string", "enum": ["user", "service", "system"]})


def _define_list(items: str) -> Document:
    return define_open_object(
        "items", items=define_array(ref(items)), nextCursor=TEXT, total=INT32, totalIsLowerBound=FLAG
    )


OPS_SCHEMAS: Final[Document] = {
    "OpsDescription": define_open_object(
        "version features principal tenant",
        version=TEXT,
        features=define_array(TEXT),
        principal=define_open_object("id kind roles", id=TEXT, kind=TEXT, roles=define_array(TEXT)),
        tenant=TEXT,
    ),
    "OpsAct": define_open_object(
        "id at actor action target details",
        id=UUID,
        at=INSTANT,
        actor=_ACTOR,
        action={"type": "string", "examples": ["entity.restore"]},
        target=define_open_object("kind id", kind=TEXT, id=TEXT),
        reason=TEXT,
        details=_MAP,
        traceId=TEXT,
    ),
    "OpsActs": _define_list("OpsAct"),
}
