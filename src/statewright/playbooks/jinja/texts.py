"""What filters and methods do with text, measured before it is done."""

from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.values import Undefined, describe, to_text


def join_text(frame: Frame, items: object, separator: object = "") -> str:
    """The items of a list as one text."""
    if isinstance(items, Undefined):
        return ""
    if isinstance(items, str):
        frame.spend_items(len(items))
        items = list(items)
    if not isinstance(items, list | dict):
        raise EvaluationFailed(f"joins {describe(items)}")
    frame.spend_items(len(items))
    pieces = [to_text(item, frame) for item in items]
    between = to_text(separator, frame)
    frame.spend_text(sum(map(len, pieces)) + len(between) * len(pieces))
    return between.join(pieces)


def replace_text(frame: Frame, value: object, old: object, new: object, count: object = None) -> str:
    """The text with one part in place of another, ``count`` times at most."""
    text, part, other = to_text(value, frame), to_text(old, frame), to_text(new, frame)
    if count is None:
        count = -1
    if not isinstance(count, int):
        raise EvaluationFailed(f"replaces {describe(count)} times")
    frame.spend_search(text, part)
    found = text.count(part)
    times = found if count < 0 else min(found, count)
    frame.spend_text(len(text) + times * max(len(other) - len(part), 0))
    frame.spend(times)
    return text.replace(part, other, count)
