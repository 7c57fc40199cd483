"""What interfaces, use cases and storage say of requests with an idempotency key to each other
(docs/reference/operations.md#idempotent-requests).
"""

from typing import Literal

from msgspec import Struct

from statewright.ids import TenantId

KeyStatus = Literal["IN_PROGRESS", "DONE", "INTERRUPTED"]


class KeyScope(Struct, frozen=True):
    """What a key counts within, and the key: its hash, as the text of a UUID."""

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
