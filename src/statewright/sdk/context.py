"""The context of a callout, which a function may have besides the document."""

from msgspec import Struct

from statewright.jsonval.values import JsonObject
from statewright.sdk.client import AsyncClient, Client
from statewright.sdk.exchange import Transport
from statewright.sdk.tracing import get_active_trace
from statewright.tracing import TraceContext, list_trace_headers


class Caller(Struct, frozen=True, kw_only=True):
    """The principal for whom the callout runs; ``kind`` is ``user``, ``service`` or ``system``
    (docs/reference/grpc.md#envelope).
    """

    id: str = ""
    kind: str = ""
    roles: tuple[str, ...] = ()


class NoWayBack(RuntimeError):
    """The context has no server to send requests to; ``statewright.sdk.testing`` makes contexts that have one."""

    def __init__(self) -> None:
        super().__init__("this context has no server behind it; in tests, use statewright.sdk.testing.FakeEngine")


class Context(Struct, frozen=True, kw_only=True):
    """What a callout says besides the document (docs/reference/grpc.md#callouts).

    ``state`` is the entity's state before the transition. ``transition`` and its two states are empty while a
    workflow is being selected. ``transaction_id`` is empty outside a transaction, and ``tx_token`` None.
    ``parameters`` is the text that the workflow configures as ``context``. ``meta`` is the entity's metadata, empty
    when the entity is not attached. ``transport`` sends requests to the server. ``trace`` is the place in a trace that
    the callout was made at, None outside all traces; requests by the clients of the context are a part of it.
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
    trace: TraceContext | None = None

    @property
    def client(self) -> Client:
        """The client for requests to the server, for plain functions; they join the transaction if there is one
        (docs/reference/grpc.md#transaction-tokens).
        """
        return Client.over(self._required_transport, self.tx_token)

    @property
    def async_client(self) -> AsyncClient:
        """The client for requests to the server, for async functions."""
        return AsyncClient.over(self._required_transport, self.tx_token)

    @property
    def _required_transport(self) -> Transport:
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
        """The headers with which an HTTP request to the server joins the transaction
        (docs/reference/grpc.md#transaction-tokens), and the trace.
        """
        joining = {"X-Tx-Token": self.tx_token} if self.tx_token else {}
        return joining | dict(list_trace_headers(get_active_trace() or self.trace))

    @property
    def callback_metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata with which a gRPC request to the server does the same."""
        joining = (("tx-token", self.tx_token),) if self.tx_token else ()
        return (*joining, *list_trace_headers(get_active_trace() or self.trace))

    def warn(self, text: str) -> None:
        """Adds a warning to the answer; the server adds it to its response to the client that caused the transition."""
        self.warnings.append(text)
