"""Values as the JSON texts that tables and entities hold."""

import re
from typing import Final

from statewright.background import run_in_thread
from statewright.failures import ProcessBadRequest
from statewright.jsonval.codec import decode_stored, encode, encode_large, is_nested_too_deep
from statewright.jsonval.merging import tidy_stored
from statewright.jsonval.pieces import encode_pieces
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.turns import is_large

_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def decode_text(text: str) -> JsonValue:
    """A stored JSON text as values, its numbers in the form in which they were taken in."""
    return tidy_stored(decode_stored(text), text)


def read_object(text: str | None) -> JsonObject:
    """A stored JSON object; anything else is empty."""
    value = None if text is None else decode_text(text)
    return value if isinstance(value, dict) else {}


def encode_text(value: JsonValue) -> str:
    """A value as JSON text. The core lets no expression make what PostgreSQL cannot hold."""
    return encode_large(value).decode()


KEPT_REASON_CHARS: Final = 65_536
"""Characters that are kept of why a job failed or an instance was cancelled: they stand in its document, its history
and its audit events.
"""


def cut_reason(text: str) -> str:
    """What is kept of a reason."""
    return text if len(text) <= KEPT_REASON_CHARS else f"{text[: KEPT_REASON_CHARS - 1]}…"


async def refuse_unstorable(variables: JsonValue) -> None:
    """Refuse what a document cannot hold. Raises ``ProcessBadRequest``."""
    if not variables:
        return
    if is_large(variables):
        await run_in_thread(lambda: _refuse_unstorable(variables))
    else:
        _refuse_unstorable(variables)


def _refuse_unstorable(variables: JsonValue) -> None:
    if is_nested_too_deep([[variables]]):
        raise ProcessBadRequest("variables are nested too deeply")
    try:
        for text in encode_pieces(variables, encode):
            if b"\\u0000" in text and _NUL.search(text.decode()):
                raise ProcessBadRequest("variables must not contain the character U+0000")
    except (UnicodeError, ValueError, TypeError) as unusable:
        raise ProcessBadRequest(f"variables cannot be stored: {unusable}") from unusable


MAX_REASON_CHARS: Final = 4_096
"""Of the reason that a client gives for what it does to an instance."""


def check_reason(reason: str) -> None:
    """Raises ``ProcessBadRequest`` for one that is too long."""
    if len(reason) > MAX_REASON_CHARS:
        raise ProcessBadRequest(f"reason must be ≤ {MAX_REASON_CHARS} characters, got {len(reason)}")
