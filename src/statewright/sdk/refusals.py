"""Why a request back to the server did not succeed, one class per kind.

CallFailed
├── Unreachable          no answer: the network, or a server that is gone; may be tried again
└── Refused              an answer that says no, with its problem document
    ├── Invalid          the request is wrong: the document, a name, a condition
    │   └── RunFailed    a criterion or a processor of the entity's workflow stopped it
    ├── NotAllowed       401, 403
    ├── Missing          404: no such entity, model or transition
    ├── TransactionOver  the transaction to be joined has ended, or its token has expired
    ├── Conflicting      409: somebody else was faster, or a unique key is taken
    ├── Modified         412: ``if_match`` names a version that is no longer current
    └── Unavailable      503: no member, no database; may be tried again

A processor that lets one of them pass fails its transition with the text of the refusal.
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from msgspec import Struct, field


class Problem(Struct, frozen=True, kw_only=True):
    """A problem document (RFC 9457, spec/entities.md Appendix A). ``properties`` hold ``errorCode`` and more."""

    status: int
    title: str = ""
    detail: str = ""
    instance: str = ""
    properties: dict[str, object] = field(default_factory=dict)
    ticket: str = ""

    @property
    def code(self) -> str:
        """The error code, for example ``ENTITY_NOT_FOUND``; empty when somebody else than Statewright answered."""
        code = self.properties.get("errorCode")
        return code if isinstance(code, str) else ""


class CallFailed(Exception):
    """A request back to the server did not succeed."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return False


class Unreachable(CallFailed):
    """There was no answer."""

    @property
    def retryable(self) -> bool:
        """Whether the request was carried out is not known."""
        return True


class Refused(CallFailed):
    """The server said no."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or f"{problem.status} {problem.title}".strip())
        self.problem = problem

    @property
    def status(self) -> int:
        """The status of the response."""
        return self.problem.status

    @property
    def code(self) -> str:
        """What went wrong, for programs."""
        return self.problem.code

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.problem.properties.get("retryable") is True


class Invalid(Refused):
    """The request is wrong."""


class RunFailed(Invalid):
    """The entity's workflow stopped the request."""


class NotAllowed(Refused):
    """The credentials or the transaction token are no good."""


class Missing(Refused):
    """There is no such thing."""


class TransactionOver(Refused):
    """The transaction has ended, or its token has expired."""


class Conflicting(Refused):
    """The state of things is in the way."""


class Modified(Refused):
    """The entity is at another version than demanded."""


class Unavailable(Refused):
    """Something that is needed is not there at the moment."""


_BY_CODE: Mapping[str, type[Refused]] = {
    "WORKFLOW_FAILED": RunFailed,
    "TRANSACTION_NOT_FOUND": TransactionOver,
    "TRANSACTION_EXPIRED": TransactionOver,
}

_BY_STATUS: Mapping[int, type[Refused]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: Missing,
    409: Conflicting,
    412: Modified,
    503: Unavailable,
}

_problem = msgspec.json.Decoder(Problem).decode

LONGEST_QUOTE = 200
"""Characters of an answer that is no problem document."""


def refusal(status: int, body: bytes) -> Refused:
    """The exception for a response; its body need not be a problem document, since proxies answer, too."""
    try:
        problem = _problem(body)
    except msgspec.DecodeError:
        detail = body.decode(errors="replace")[:LONGEST_QUOTE].strip()
        problem = Problem(status=status, title=_phrase(status), detail=f"{status} {detail}".strip())
    return _kind(problem)(problem)


def refused_item(error: Mapping[str, object]) -> Refused:
    """The exception for a part of a collection that was refused after others had succeeded."""
    code, detail = str(error.get("code") or ""), str(error.get("message") or "")
    problem = Problem(status=HTTPStatus.BAD_REQUEST, detail=detail, properties={"errorCode": code})
    return _kind(problem)(problem)


def _kind(problem: Problem) -> type[Refused]:
    found = _BY_CODE.get(problem.code) or _BY_STATUS.get(problem.status)
    return found or (Invalid if problem.status < HTTPStatus.INTERNAL_SERVER_ERROR else Refused)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
