"""What a workflow import says of a criterion (spec/workflows.md §5.2, decision W11).

No schema is asked, since a processor may add fields later. Reported is what can never be evaluated, whatever the data.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from statewright.conditions.checks import Defect, Finding, form_findings, meta_findings, parts_of, pattern_findings
from statewright.conditions.operands import range_operands
from statewright.conditions.operators import RANGES
from statewright.conditions.paths import parse_path
from statewright.conditions.syntax import Array, Condition, Function, Group, Lifecycle, Simple
from statewright.failures import ValidationFailed


def check_criterion(condition: Condition, location: str) -> None:
    """Raises :class:`ValidationFailed` for the first finding; ``location`` says where the criterion stands."""
    for message in criterion_findings(condition, location):
        raise ValidationFailed(message)


def criterion_findings(condition: Condition, location: str) -> tuple[str, ...]:
    """All findings, each beginning with the location. A function is a criterion of its own and has none."""
    if isinstance(condition, Function):
        return ()
    return tuple(f"{location}: {finding.message}" for finding in _findings(_with_bounds_listed(condition)))


def _findings(condition: Condition) -> Iterator[Finding]:
    for findings in (form_findings, _path_findings, pattern_findings, meta_findings):
        yield from findings(condition)


def _path_findings(condition: Condition) -> Iterator[Finding]:
    for part in parts_of(condition):
        if isinstance(part, Simple | Array) and part.path.strip() and parse_path(part.path) is None:
            yield Finding(Defect.PATH, f'unsupported field path "{part.path}": invalid field path')


def _with_bounds_listed(condition: Condition) -> Condition:
    """The same with ranges written ``"low,high"`` as ``["low", "high"]``: only criteria may have them as a text."""
    if isinstance(condition, Group):
        return replace(condition, conditions=tuple(map(_with_bounds_listed, condition.conditions)))
    if isinstance(condition, Simple | Lifecycle) and condition.operator in RANGES and isinstance(condition.value, str):
        return replace(condition, value=range_operands(condition.value) or condition.value)
    return condition
