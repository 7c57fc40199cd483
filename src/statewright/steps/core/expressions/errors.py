"""The one way in which an expression can fail."""


class ExpressionError(ValueError):
    """A text that is no expression, or an expression that has no value for the given variables."""
