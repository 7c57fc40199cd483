"""The failures of calculation members and callouts (docs/reference/grpc.md#grpc)."""

from statewright.failures.failure import Failure


class NoComputeMember(Failure):
    """No connected calculation member of the tenant declares the required tags."""

    code, status, retryable = "NO_COMPUTE_MEMBER_FOR_TAG", 503, True
    member_id = ""


class ComputeMemberDisconnected(Failure):
    """The calculation member's stream ended while it worked on the callout."""

    code, status, retryable = "COMPUTE_MEMBER_DISCONNECTED", 503, True

    def __init__(self, message: str, *, written: bool = True, member_id: str = "") -> None:
        super().__init__(message)
        self.written = written
        """Whether the request had reached the stream, so that the member may have worked on it."""
        self.member_id = member_id
        """The member that was lost; empty when it is not known."""


class ForwardFailed(ComputeMemberDisconnected):
    """Another node, which the calculation member is connected to, was lost while the member worked on the callout."""

    code = "DISPATCH_FORWARD_FAILED"

    def __init__(self, *, written: bool = True, member_id: str = "") -> None:
        super().__init__("forwarding the callout to a peer node failed", written=written, member_id=member_id)


class DispatchTimeout(Failure):
    """The calculation member did not answer in time."""

    code, status, retryable = "DISPATCH_TIMEOUT", 503, True
    member_id = ""
    """The member that did not answer; empty when it is not known."""


class MemberNotFound(Failure):
    """No member with a stream has this id; workers that poll have none."""

    code, status = "MEMBER_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("no connected calculation member has this id")
