"""What a function may know about the callout it serves, besides the document."""

from msgspec import Struct

from statewright.jsonval.values import JsonObject
from statewright.sdk.client import AsyncClient, Client, Transport


class Caller(Struct, frozen=True, kw_only=True):
    """On whose behalf the callout runs; ``kind`` is ``user``, ``service`` or ``system`` (spec/grpc.md §2)."""

    id: str = ""
    kind: str = ""
    roles: tuple[str, ...] = ()


class NoWayBack(RuntimeError):
    """The context was made by hand, without a server behind it; ``statewright.sdk.testing`` makes one with."""

    def __init__(self) -> None:
        super().__init__("this context has no server behind it; in tests, use statewright.sdk.testing.FakeEngine")


class Context(Struct, frozen=True, kw_only=True):
    """The surroundings of one callout (spec/grpc.md §14).

    ``state`` is the entity's state before the transition. ``transition`` and its two states are empty while a
    workflow is being selected. ``transaction_id`` is empty outside a transaction, and ``tx_token`` None.
    ``parameters`` is the text that the workflow configures as ``context``. ``meta`` is the entity's metadata, empty
    when the entity is not attached. ``transport`` is the way back to the server.
    """

    name: str
    request_id: str
    entity_id: str
    workflow: str = ""
    transition: str = ""
    state_from: str = ""
    state_to: str = ""
    transaction_id: str = ""
    tx_token: str | None = None
    parameters: str = ""
    principal: Caller = Caller()
    meta: JsonObject = {}
    warnings: list[str] = []
    transport: Transport | None = None

    @property
    def client(self) -> Client:
        """Requests back to the server, for plain functions; they join the transaction if there is one (§16)."""
        return Client(self._way_back, self.tx_token)

    @property
    def async_client(self) -> AsyncClient:
        """The same for async functions."""
        return AsyncClient(self._way_back, self.tx_token)

    @property
    def _way_back(self) -> Transport:
        if self.transport is None:
            raise NoWayBack
        return self.transport

    @property
    def state(self) -> str:
        return str(self.meta.get("state") or self.state_from)

    @property
    def model(self) -> tuple[str, int] | None:
        """Name and version of the entity's model; None when the entity is not attached."""
        key = self.meta.get("modelKey")
        if not isinstance(key, dict):
            return None
        name, version = key.get("name"), key.get("version")
        return (name, version) if isinstance(name, str) and isinstance(version, int) else None

    @property
    def callback_headers(self) -> dict[str, str]:
        """What an HTTP request back to the server sends along to take part in the transaction (spec/grpc.md §16)."""
        return {"X-Tx-Token": self.tx_token} if self.tx_token else {}

    def warn(self, text: str) -> None:
        """Adds a warning to the answer; the server passes it on to whoever caused the transition."""
        self.warnings.append(text)
