"""Guards: queries that are true when they select anything (docs/reference/flows.md#guards).

The dialect is not that of RFC 9535: a filter tests the current value itself and does not step into its children, ``or``
binds tighter than ``and``, and a query costs no more than its budget. So it has an evaluator of its own.
"""

from statewright.flows.guards.evaluation import MAX_GUARD_STEPS, GuardTooCostly, select, selects
from statewright.flows.guards.parsing import BadGuard, parse_guard
from statewright.flows.guards.syntax import Guard

__all__ = ["MAX_GUARD_STEPS", "BadGuard", "Guard", "GuardTooCostly", "parse_guard", "select", "selects"]
