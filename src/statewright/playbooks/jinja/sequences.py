"""Filters that go through lists and mappings: what they are made of, in which order, and which of it is kept."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cmp_to_key
from typing import TypeAlias

from statewright.evaluation.costs import expand_number, key_number
from statewright.evaluation.values import charge_compared
from statewright.playbooks.jinja import operators
from statewright.playbooks.jinja.charges import join_text
from statewright.playbooks.jinja.methods import follow, read_path
from statewright.playbooks.jinja.operators import OPERATORS
from statewright.playbooks.jinja.values import (
    EvaluationFailed,
    Frame,
    Undefined,
    compare_equal,
    describe,
    is_truthy,
    precedes,
)

Filter: TypeAlias = Callable[..., object]


def measure(frame: Frame, value: object) -> object:
    """How many items, members or characters."""
    if isinstance(value, Undefined):
        return 0
    if isinstance(value, str | list | dict):
        return len(value)
    raise EvaluationFailed(f"measures the length of {describe(value)}")


def list_values(frame: Frame, value: object) -> list[object]:
    """What a loop over a value visits: items, the names of members, characters; of undefined nothing."""
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, str | list | dict):
        raise EvaluationFailed(f"goes through {describe(value)}")
    frame.spend_items(len(value))
    return list(value)


def join_items(frame: Frame, value: object, d: object = "", attribute: object = None) -> object:
    """One text of all items, or of a member of each."""
    items = value if attribute is None else [pick(frame, item, attribute) for item in list_values(frame, value)]
    return join_text(frame, items, d)


def pick(frame: Frame, value: object, attribute: object, default: object = None) -> object:
    """The member at a dotted path, or the default where there is none."""
    picked = follow(value, attribute, frame)
    return default if default is not None and isinstance(picked, Undefined) else picked


def take_first(frame: Frame, value: object) -> object:
    """The first item; of nothing undefined."""
    return _take(frame, value, 0)


def take_last(frame: Frame, value: object) -> object:
    """The last item; of nothing undefined."""
    return _take(frame, value, -1)


def _take(frame: Frame, value: object, index: int) -> object:
    if isinstance(value, Undefined):
        return value
    if not isinstance(value, str | list | dict):
        raise EvaluationFailed(f"takes an item of {describe(value)}")
    if not value:
        return Undefined("an item of an empty list")
    items: Sequence[object] = value if isinstance(value, str | list) else list_values(frame, value)
    return items[index]


def _build_key(frame: Frame, case_sensitive: object, attribute: object) -> Callable[[object], object]:
    """What a value is compared by."""

    def key(value: object) -> object:
        picked = value if attribute is None else follow(value, attribute, frame)
        if isinstance(picked, str) and not is_truthy(case_sensitive):
            frame.spend_text(len(picked))
            return picked.lower()
        return picked

    return key


def _compare(frame: Frame, left: object, right: object) -> int:
    frame.spend(1 + charge_compared(left, right))
    if isinstance(left, list) and isinstance(right, list):
        for a, b in zip(left, right, strict=False):
            if not compare_equal(a, b, frame):
                return _compare(frame, a, b)
        return len(left) - len(right)
    return -1 if precedes(left, right, frame) else int(precedes(right, left, frame))


def sort_items(
    frame: Frame, value: object, reverse: object = False, case_sensitive: object = False, attribute: object = None
) -> object:
    """``attribute`` may name several members, with commas between them."""
    names = read_path(attribute).split(",") if isinstance(attribute, str) else [attribute]
    keys = [_build_key(frame, case_sensitive, name) for name in names]
    items = list_values(frame, value)
    frame.spend(len(items) * len(keys))
    marks = [[key(item) for key in keys] for item in items]
    return [items[place] for place in _order_places(frame, marks, reverse)]


def _order_places(frame: Frame, marks: Sequence[object], reverse: object = False) -> list[int]:
    """The places of marks, in the order of these."""

    def compare(left: int, right: int) -> int:
        return _compare(frame, marks[left], marks[right])

    return sorted(range(len(marks)), key=cmp_to_key(compare), reverse=is_truthy(reverse))


def sort_members(
    frame: Frame, value: object, case_sensitive: object = False, by: object = "key", reverse: object = False
) -> object:
    """The members of a mapping as pairs, in order."""
    if by not in ("key", "value"):
        raise EvaluationFailed("sorts members by something that is neither key nor value")
    return sort_items(frame, list_pairs(frame, value), reverse, case_sensitive, 0 if by == "key" else 1)


def list_pairs(frame: Frame, value: object) -> list[object]:
    """The members of a mapping, each as a list of name and value."""
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, dict):
        raise EvaluationFailed(f"lists the members of {describe(value)}")
    frame.spend_items(2 * len(value))
    return [[name, member] for name, member in value.items()]


def remove_repeats(frame: Frame, value: object, case_sensitive: object = False, attribute: object = None) -> object:
    """The items without those that equal an earlier one."""
    key = _build_key(frame, case_sensitive, attribute)
    seen_scalars: set[object] = set()
    seen: list[object] = []
    kept: list[object] = []
    for item in list_values(frame, value):
        mark = key(item)
        if isinstance(mark, str | int | Decimal) or mark is None:
            scalar = _key_scalar(frame, mark)
            if scalar in seen_scalars:
                continue
            seen_scalars.add(scalar)
        else:
            if any(compare_equal(mark, other, frame) for other in seen):
                continue
            seen.append(mark)
        kept.append(item)
    return kept


def _key_scalar(frame: Frame, value: str | int | Decimal | None) -> object:
    """What stands for a text or number in a set."""
    if isinstance(value, str):
        frame.spend_text(len(value))
        return value
    if value is None:
        return None
    frame.spend(expand_number(value))
    return key_number(value)


def find_extreme(sign: int) -> Filter:
    """A filter: the greatest item, or with a negative sign the least."""

    def apply(frame: Frame, value: object, case_sensitive: object = False, attribute: object = None) -> object:
        key = _build_key(frame, case_sensitive, attribute)
        best: list[tuple[object, object]] = []
        for item in list_values(frame, value):
            mark = key(item)
            if not best or sign * _compare(frame, mark, best[0][0]) > 0:
                best = [(mark, item)]
        return best[0][1] if best else Undefined("the extreme of an empty list")

    return apply


def sum_items(frame: Frame, value: object, attribute: object = None, start: object = 0) -> object:
    """The sum of the items, or of a member of each."""
    total = start
    for item in list_values(frame, value):
        total = frame.call(OPERATORS["Add"], total, item if attribute is None else follow(item, attribute, frame))
    return total


def choose(*, keeps: bool, by_attribute: bool) -> Filter:
    """A filter: the items for which a test says ``keeps``."""

    def apply(frame: Frame, value: object, *arguments: object) -> object:
        items = list_values(frame, value)
        if by_attribute and not arguments:
            raise EvaluationFailed("selects by an attribute without saying which")
        attribute, *rest = arguments if by_attribute else (None, *arguments)
        test = _build_test(rest)
        frame.spend(len(items))
        return [
            item for item in items if test(frame, follow(item, attribute, frame) if by_attribute else item) is keeps
        ]

    return apply


def _build_test(arguments: list[object]) -> Callable[[Frame, object], bool]:
    if not arguments:
        return lambda frame, value: is_truthy(value)
    name, *rest = arguments
    if not isinstance(name, str) or name not in operators.TESTS:
        raise EvaluationFailed("selects by something that is no test")
    test = operators.TESTS[name]
    return lambda frame, value: is_truthy(frame.call(test, value, *rest))


def reverse(frame: Frame, value: object) -> object:
    """Text or items, the last first."""
    if isinstance(value, str):
        frame.limit_text(len(value))
        return value[::-1]
    return list_values(frame, value)[::-1]


def group_items(
    frame: Frame, value: object, attribute: object, default: object = None, case_sensitive: object = False
) -> object:
    """The items by a member, each group as a list of the member and its items, in the order of the members."""

    key = _build_key(frame, case_sensitive, None)
    items = list_values(frame, value)
    marks = [key(pick(frame, item, attribute, default)) for item in items]
    order = _order_places(frame, marks)
    groups: list[object] = []
    members: list[object] = []
    for number, place in enumerate(order):
        if not number or not compare_equal(marks[order[number - 1]], marks[place], frame):
            members = []
            groups.append([pick(frame, items[place], attribute, default), members])
        members.append(items[place])
    return groups


def divide_items(frame: Frame, value: object, slices: object, fill_with: object = None) -> object:
    """So many lists of the items, as equally long as they can be, the longer ones first."""
    if not isinstance(slices, int) or slices < 1:
        raise EvaluationFailed("makes slices that are less than one")
    items = list_values(frame, value)
    frame.spend_items(slices)
    short, longer = divmod(len(items), slices)
    parts: list[object] = []
    at = 0
    for number in range(slices):
        end = at + short + (number < longer)
        filled = [fill_with] if fill_with is not None and longer and number >= longer else []
        parts.append(items[at:end] + filled)
        at = end
    return parts


def make_batches(frame: Frame, value: object, linecount: object, fill_with: object = None) -> object:
    """Lists of so many items each."""
    if not isinstance(linecount, int) or linecount < 1:
        raise EvaluationFailed("makes batches of less than one item")
    items = list_values(frame, value)
    batches = [items[start : start + linecount] for start in range(0, len(items), linecount)]
    if batches and fill_with is not None and (missing := linecount - len(batches[-1])):
        frame.spend_items(missing)
        batches[-1] = batches[-1] + [fill_with] * missing
    return batches
