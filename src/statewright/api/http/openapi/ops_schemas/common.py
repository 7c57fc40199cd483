"""What schemas of the operations API have in common."""

from typing import Final

from statewright.api.http.openapi.shapes import (
    FLAG,
    INT32,
    TEXT,
    Document,
    define_array,
    define_open_object,
    ref,
)
from statewright.suspensions import SCOPES

MAP: Final = {"type": "object", "additionalProperties": True}
ACTOR: Final = define_open_object("id kind", id=TEXT, kind={"type": "string", "enum": ["user", "service", "system"]})
SCOPE: Final = {"type": "string", "enum": list(SCOPES)}
MODEL: Final = define_open_object("name version", name=TEXT, version=INT32)


def define_list(items: str) -> Document:
    """A page of a list."""
    return define_open_object(
        "items", items=define_array(ref(items)), nextCursor=TEXT, total=INT32, totalIsLowerBound=FLAG
    )
