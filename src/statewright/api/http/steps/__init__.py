"""The REST dialect of the JSON step engine: ``/v1`` beside the context path (docs/reference/steps.md#conventions,
docs/reference/steps.md#rest).

Its clients know nothing of the entity API, so it has rules of its own: two members in an error, any origin may call,
member names in any case. For that reason it is a ``Dialect`` of its own in the application that serves both.
"""
