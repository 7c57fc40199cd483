"""What interfaces, use cases and storage say of requests with an idempotency key to each other
(docs/reference/operations.md#idempotent-requests).
"""

import re
from typing import Final, Literal

from msgspec import Struct

from statewright.ids import TenantId

KeyStatus = Literal["IN_PROGRESS", "DONE", "INTERRUPTED"]


Recording = Literal["commit", "only commit", "transaction", "either", "nothing"]
"""How a request with an idempotency key is recorded: with the commit of its unit of work; the same, where it does
nothing else that lasts; in one transaction with the statements of its use case; with the commit where it joins a unit
of work, else in such a transaction; not at all, where nothing durable is made.
"""

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_ESCAPE: Final = re.compile(r'\\(["\\])')


def read_key(text: str) -> str | None:
    """The key that a client sends: a structured-field string, or the bare text; None for what is no key."""
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        text = _ESCAPE.sub(r"\1", quoted[1])
    elif text.startswith('"'):
        return None
    return text if _KEY.fullmatch(text) else None


class KeyScope(Struct, frozen=True):
    """What a key counts within, and the key: its hash, 16 bytes in hexadecimal."""

    tenant: TenantId
    principal: str
    key: str


class StoredAnswer(Struct, frozen=True):
    """An answer as it is given again. What is not HTTP has the status 200 where it succeeded."""

    status: int
    media_type: str
    body: str

    @property
    def is_success(self) -> bool:
        """Whether it tells of an effect."""
        return 200 <= self.status < 300
