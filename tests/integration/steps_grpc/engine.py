"""``workflow.v1`` as one caller sees it: blocking calls with a deadline."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from statewright.proto.workflow.v1 import engine_pb2 as pb
from tests.builders import Json
from tests.service import PATIENCE_S, RunningService

SERVICE = "/workflow.v1.WorkflowEngine/"


class Engine:
    """Calls by name: the members of the request are keyword arguments."""

    def __init__(self, channel: grpc.Channel, token: str | None) -> None:
        self._channel = channel
        self._credentials = () if token is None else (("authorization", f"Bearer {token}"),)

    def __call__(
        self, method: str, *, metadata: tuple[tuple[str, str], ...] = (), within: float = PATIENCE_S, **members: Any
    ) -> Any:
        """The response. Raises ``grpc.RpcError``."""
        request, response = getattr(pb, f"{method}Request"), getattr(pb, f"{method}Response")
        call = self._channel.unary_unary(
            f"{SERVICE}{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call(request(**members), timeout=within, metadata=(*self._credentials, *metadata))

    def future(
        self,
        method: str,
        *,
        metadata: tuple[tuple[str, str], ...] = (),
        within: float | None = PATIENCE_S,
        **members: Any,
    ) -> Any:
        """The call under way; ``within`` None: without a deadline."""
        request, response = getattr(pb, f"{method}Request"), getattr(pb, f"{method}Response")
        call = self._channel.unary_unary(
            f"{SERVICE}{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call.future(request(**members), timeout=within, metadata=(*self._credentials, *metadata))


@contextmanager
def engine_of(service: RunningService, token: str | None) -> Iterator[Engine]:
    """The engine of a service on a channel of its own."""
    with grpc.insecure_channel(service.grpc) as channel:
        yield Engine(channel, token)


def refused(engine: Engine, code: str, method: str, **members: Json) -> str:
    """The message of a call that must end with this status."""
    with pytest.raises(grpc.RpcError) as caught:
        engine(method, **members)
    error: Any = caught.value
    assert error.code().name == code, error
    return str(error.details())
