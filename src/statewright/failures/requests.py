"""What is wrong with a request whatever it is about, or with its sender."""

from statewright.failures.failure import Failure


class BadRequest(Failure):
    """The request is malformed in a way that has no code of its own."""

    code, status = "BAD_REQUEST", 400


class InvalidParameter(BadRequest):
    """A path or query parameter, or a header, does not bind."""

    def __init__(self, parameter: str) -> None:
        super().__init__(f"invalid value for parameter '{parameter}'", {"parameter": parameter})


class MethodNotAllowed(BadRequest):
    """Help can only be read."""

    status = 405

    def __init__(self) -> None:
        super().__init__("method not allowed")


class BodyTooLarge(BadRequest):
    """The body of a statistics query or of a message is over its limit; other bodies are a plain ``BadRequest``."""

    status = 413


class UnsupportedMediaType(Failure):
    """A patch in another format than JSON, or in no known dialect (spec/entities.md §8)."""

    code, status = "UNSUPPORTED_MEDIA_TYPE", 415


class PreconditionRequired(Failure):
    """A patch must say which version it is for."""

    code, status = "PRECONDITION_REQUIRED", 428


class Unauthorized(Failure):
    """The caller is not authenticated; the cause is told to the log only."""

    code, status = "UNAUTHORIZED", 401

    def __init__(self, message: str = "authentication failed") -> None:
        super().__init__(message)


class Forbidden(Failure):
    """The caller lacks a role, or asks for something of another tenant by a token."""

    code, status = "FORBIDDEN", 403

    def __init__(self, message: str = "forbidden") -> None:
        super().__init__(message)


class HelpTopicNotFound(Failure):
    """There is no such page of help."""

    code, status = "HELP_TOPIC_NOT_FOUND", 404


class NotImplementedHere(Failure):
    """A known operation that this service, or this authentication mode, does not offer."""

    code, status = "NOT_IMPLEMENTED", 501
