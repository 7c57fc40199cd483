"""Static rules yield what breaks them as text; an import is refused with the first (spec/workflows.md §5)."""

from collections.abc import Iterable

from statewright.failures import ValidationFailed


def refuse_first(violations: Iterable[str]) -> None:
    """Raises ValidationFailed with the first violation, if there is one. The others are not even looked for."""
    for violation in violations:
        raise ValidationFailed(violation)
