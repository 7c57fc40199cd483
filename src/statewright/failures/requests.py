"""The failures of any request, and of its sender."""

from collections.abc import Sequence

from statewright.failures.failure import Failure


class BadRequest(Failure):
    """The request is malformed in a way that has no code of its own."""

    code, status = "BAD_REQUEST", 400


class InvalidParameter(BadRequest):
    """A path or query parameter, or a header, does not bind. ``wrong`` says why: ``not a UUID``."""

    def __init__(self, parameter: str, wrong: str = "") -> None:
        text = f"invalid value for parameter '{parameter}'"
        super().__init__(f"{text}: {wrong}" if wrong else text, {"parameter": parameter})


class MissingParameter(BadRequest):
    """A query parameter that is required is absent."""

    def __init__(self, parameter: str) -> None:
        super().__init__(f"missing required parameter '{parameter}'", {"parameter": parameter})


class MethodNotAllowed(BadRequest):
    """The path has other methods, which the header ``Allow`` names."""

    status = 405

    def __init__(self, allowed: Sequence[str] = ("GET",)) -> None:
        super().__init__(f"method not allowed; this path has {', '.join(allowed)}")


class PathNotFound(Failure):
    """There is no such path. All that there are stand in the OpenAPI document, ``/openapi.json``."""

    code, status = "NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("there is no such path; /docs shows those there are")


class BodyTooLarge(BadRequest):
    """The body is over the limit of its operation (docs/reference/entities.md#limits)."""

    status = 413


class TooManyRequests(Failure):
    """So many requests of this kind wait already that one more would be at the cost of others."""

    code, status, retryable = "TOO_MANY_REQUESTS", 429, True


class UnsupportedMediaType(Failure):
    """A patch in another format than JSON, or in no known dialect (docs/reference/entities.md#partial-update)."""

    code, status = "UNSUPPORTED_MEDIA_TYPE", 415


class PreconditionRequired(Failure):
    """A patch must say which version it is for."""

    code, status = "PRECONDITION_REQUIRED", 428


class Unauthorized(Failure):
    """The caller is not authenticated; the cause is written to the log only."""

    code, status = "UNAUTHORIZED", 401

    def __init__(self, message: str = "authentication failed") -> None:
        super().__init__(message)


class Forbidden(Failure):
    """The caller lacks a role, or asks for something of another tenant by a token."""

    code, status = "FORBIDDEN", 403

    def __init__(self, message: str = "forbidden") -> None:
        super().__init__(message)


class ReadOnly(Failure):
    """The caller may read, and wants to change something (docs/reference/authentication.md#roles)."""

    code, status = "READ_ONLY", 403

    def __init__(self) -> None:
        super().__init__("the caller has ROLE_READ_ONLY, which allows no change")


class HostNotAllowed(Failure):
    """The request came by a name that is none of the service's, where it counts without credentials (decision A5)."""

    code, status = "HOST_NOT_ALLOWED", 421

    def __init__(self, host: str) -> None:
        super().__init__(
            "without credentials this service answers to addresses, localhost and names without a dot, not to"
            f' "{host}"; STATEWRIGHT_ALLOWED_HOSTS names more'
        )


class OriginNotAllowed(Failure):
    """A page of another origin wants to change something, where that counts without credentials (decision A5)."""

    code, status = "ORIGIN_NOT_ALLOWED", 403

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"without credentials a page of {origin} may change nothing here;"
            " STATEWRIGHT_CORS_ALLOWED_ORIGINS names the origins that may"
        )


class HelpTopicNotFound(Failure):
    """There is no such page of help."""

    code, status = "HELP_TOPIC_NOT_FOUND", 404


class NotImplementedHere(Failure):
    """A known operation that this service, or this authentication mode, does not offer."""

    code, status = "NOT_IMPLEMENTED", 501
