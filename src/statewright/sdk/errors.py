"""Exceptions for requests to the server that did not succeed, one class per kind.

CallFailed
├── Unreachable          no answer: the network, or a server that is gone; may be tried again
│   └── TokenUnavailable the token endpoint refused, or did not answer
├── SearchFailed         a search job ended without results
└── Refused              the server refused the request, with a problem document
    ├── Invalid          the request is wrong: the document, a name, a condition
    │   └── RunFailed    a criterion or a processor of the entity's workflow stopped it
    ├── NotAllowed       401, 403
    ├── Missing          404: no such entity, model or transition
    ├── TransactionOver  the transaction to be joined has ended, or its token has expired
    ├── Conflicting      409: another transaction committed first, or a unique key is taken
    ├── Modified         412: ``if_match`` names a version that is no longer current
    └── Unavailable      503: no member, no database; may be tried again

A processor that lets one of them pass fails its transition with the text of the refusal.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct, field


class Problem(Struct, frozen=True, kw_only=True):
    """A problem document (RFC 9457, docs/reference/entities.md#errors). ``properties`` hold ``errorCode`` and more."""

    status: int
    title: str = ""
    detail: str = ""
    instance: str = ""
    properties: dict[str, object] = field(default_factory=dict)
    ticket: str = ""

    @property
    def code(self) -> str:
        """The error code, for example ``ENTITY_NOT_FOUND``; empty when not Statewright answered but, say, a proxy."""
        code = self.properties.get("errorCode")
        return code if isinstance(code, str) else ""


class CallFailed(Exception):
    """A request to the server did not succeed."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return False


class Unreachable(CallFailed):
    """There was no answer. ``was_sent``: the request was on its way, so whether it was carried out is not known."""

    def __init__(self, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent

    @property
    def retryable(self) -> bool:
        """True: the request may succeed later."""
        return True


class TokenUnavailable(Unreachable):
    """There is no token, and so the request was not sent. ``was_refused``: the credentials are wrong."""

    def __init__(self, message: str, *, was_refused: bool = False) -> None:
        super().__init__(message, was_sent=False)
        self.was_refused = was_refused

    @property
    def retryable(self) -> bool:
        """Whether the token endpoint may give one later."""
        return not self.was_refused


class SearchFailed(CallFailed):
    """A search job has failed, or was cancelled; ``status`` says which."""

    def __init__(self, job_id: str, status: str, reason: str) -> None:
        super().__init__(f"search job {job_id} is {status}" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.status = status


class Refused(CallFailed):
    """The server refused the request. ``warnings`` are those of the run that failed."""

    def __init__(self, problem: Problem, *, is_busy: bool = False, warnings: tuple[str, ...] = ()) -> None:
        """``is_busy``: the answer asks to be repeated by a header, not in its body."""
        super().__init__(problem.detail or f"{problem.status} {problem.title}".strip())
        self.problem = problem
        self.warnings = warnings
        self._retryable = is_busy or problem.properties.get("retryable") is True

    @property
    def properties(self) -> Mapping[str, object]:
        """What the problem says beside its code, such as ``entityId``."""
        return self.problem.properties

    @property
    def status(self) -> int:
        """The status of the response."""
        return self.problem.status

    @property
    def code(self) -> str:
        """The error code, as :attr:`Problem.code`."""
        return self.problem.code

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self._retryable


class Invalid(Refused):
    """The request is wrong: the document, a name or a condition."""


class RunFailed(Invalid):
    """A criterion or a processor of the entity's workflow stopped the request."""


class NotAllowed(Refused):
    """The credentials or the transaction token are not valid, or do not allow the request."""


class Missing(Refused):
    """There is no such entity, model or transition."""


class TransactionOver(Refused):
    """The transaction has ended, or its token has expired."""


class Conflicting(Refused):
    """Another transaction committed first, a unique key is taken, or the state of the model forbids the request."""


class Modified(Refused):
    """The entity is at another version than demanded."""


class Unavailable(Refused):
    """No member or no database is available at the moment, or the service is busy."""


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
    429: Unavailable,
    503: Unavailable,
}

_decode_problem = msgspec.json.Decoder(Problem).decode


class _StepProblem(Struct, frozen=True):
    """How the step engine writes errors (docs/reference/steps.md#conventions)."""

    error: str
    reason: str


_decode_step_problem = msgspec.json.Decoder(_StepProblem).decode

MAX_QUOTE_CHARS: Final = 200
"""Characters of an answer that is no problem document which the exception quotes."""


def build_error(status: int, body: bytes, *, is_busy: bool = False, warnings: tuple[str, ...] = ()) -> Refused:
    """The exception for a response; its body need not be a problem document, since proxies answer, too."""
    problem = _read_problem(status, body)
    return _select_error_class(problem)(problem, is_busy=is_busy, warnings=warnings)


def _read_problem(status: int, body: bytes) -> Problem:
    try:
        return _decode_problem(body)
    except msgspec.DecodeError:
        pass  # not a problem document: process languages have a form of their own
    try:
        found = _decode_step_problem(body)
    except msgspec.DecodeError:
        detail = body.decode(errors="replace")[:MAX_QUOTE_CHARS].strip()
        return Problem(status=status, title=_get_phrase(status), detail=f"{status} {detail}".strip())
    return Problem(status=status, title=_get_phrase(status), detail=found.reason, properties={"errorCode": found.error})


def build_item_error(error: Mapping[str, object]) -> Refused:
    """The exception for a part of a collection that was refused after others had succeeded."""
    code, detail = str(error.get("code") or ""), str(error.get("message") or "")
    problem = Problem(status=HTTPStatus.BAD_REQUEST, detail=detail, properties={"errorCode": code})
    return _select_error_class(problem)(problem)


def _select_error_class(problem: Problem) -> type[Refused]:
    found = _BY_CODE.get(problem.code) or _BY_STATUS.get(problem.status)
    return found or (Invalid if problem.status < HTTPStatus.INTERNAL_SERVER_ERROR else Refused)


def _get_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
