"""Guards: JSONPath queries that hold when they select anything (docs/reference/flows.md#guards).

A text is read by a grammar of our own, since the language of guards differs from that of jsonpath-ng in what its parts
select: filters test the value itself, not its children. What is made of it are paths of that library (decision D4),
which gives the values their context and the way back to the whole input. Evaluating a guard has a budget.
"""

from statewright.flows.guards.guard import Guard, count_parsing_steps, parse_guard
from statewright.flows.guards.reading import MalformedGuard
from statewright.flows.guards.values import MAX_SELECTED, GuardTooBroad

__all__ = ["MAX_SELECTED", "Guard", "GuardTooBroad", "MalformedGuard", "count_parsing_steps", "parse_guard"]
