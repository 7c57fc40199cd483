"""Statements of searches whose conditions have a template (``conditions/templates.py``), put together once."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.conditions.marks import Arguments, Operand
from statewright.conditions.sorting import SortOrder, order_by
from statewright.conditions.templates import Template
from statewright.storage.lookups import MOST_ROWS, Lookup

MOST_STATEMENTS: Final = 512

BACK_OFF: Final = 20
"""Searches of a shape that are planned anew after one has found more than a kept plan is good for."""


class Ready(Struct, kw_only=True):
    """The statement of a shape; its arguments are tenant and model unless it is ``kept``, those of the condition, the
    most rows that are wanted, and those of the order.

    ``kept`` says that its plan may be kept, ``is_run`` that it is good for ``MOST_ROWS`` matches only.
    """

    text: str
    arguments: Arguments
    tail: tuple[object, ...]
    kept: bool
    is_run: bool
    pause: int = 0
    """Searches to come that are planned anew."""

    def args(self, head: Sequence[str], operands: Sequence[Operand], rows: int) -> list[object] | None:
        """All arguments; None when the condition has not the form of the template after all."""
        own = self.arguments.of(operands)
        if own is None:
            return None
        return [*own, rows, *self.tail] if self.kept else [*head, *own, rows, *self.tail]

    def kept_for(self, limit: int) -> int:
        """How many matches the kept plan may bring at most, of up to ``limit``; 0 when a plan must be made."""
        if not self.kept:
            return 0
        if not self.is_run or limit <= MOST_ROWS:
            return limit
        if self.pause:
            self.pause -= 1
            return 0
        return MOST_ROWS

    def was_too_narrow(self) -> None:
        """There were more matches than the kept plan may bring."""
        self.pause = BACK_OFF


class ReadyStatements:
    """Those of a process, at most ``MOST_STATEMENTS``, the least recently used dropped first."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Template, Lookup | None, str, SortOrder], Ready | None] = OrderedDict()

    def of(self, template: Template, lookup: Lookup | None, columns: str, order: SortOrder) -> Ready | None:
        """The statement that selects ``columns`` in the order, with what ``lookup`` knows of the model's indexes; None
        when it is not worth it.
        """
        key = template, lookup, columns, order
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        ready = self._known[key] = _ready(template, lookup, columns, order)
        if len(self._known) > MOST_STATEMENTS:
            self._known.popitem(last=False)
        return ready


def _ready(template: Template, lookup: Lookup | None, columns: str, order: SortOrder) -> Ready | None:
    answers = lookup is not None and lookup.answers(template.plan)
    is_run = lookup is not None and not answers and lookup.runs(template.plan)
    constants = lookup.constants if lookup is not None and (answers or is_run) else None
    if constants is None:
        expression = template.compile(first=3)
        tenant, model = "$1", "$2"
    else:
        expression = template.compile(names=constants.names)
        tenant, model = constants.tenant, constants.model
    if expression is None:
        return None
    place = len(expression.arguments.pick) + (1 if constants else 3)
    chosen = f"tenant = {tenant} AND model = {model} AND ({expression.text}) LIMIT ${place}::bigint"
    text = f"SELECT {columns} FROM entity WHERE {chosen}"  # noqa: S608 - names are our own, values are arguments
    tail: tuple[object, ...] = ()
    if order:
        ordering = order_by(order, first=place + 1, names={} if constants is None else constants.names)
        text = f"SELECT {columns} FROM ({text}) AS match ORDER BY {ordering.text}"  # noqa: S608
        tail = ordering.args
    return Ready(text=text, arguments=expression.arguments, tail=tail, kept=constants is not None, is_run=is_run)
