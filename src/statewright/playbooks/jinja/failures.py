"""What can be wrong with a template: when it is read, and when it is evaluated."""


class InvalidTemplate(ValueError):
    """A string that does not compile; ``path`` is its place within the value, a JSON pointer."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class EvaluationFailed(Exception):
    """An expression that has no value."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
