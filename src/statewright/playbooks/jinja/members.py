"""Members and items of values: what ``a.b``, ``a[0]`` and the attributes of filters name."""

from decimal import Decimal

from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.values import Namespace, Undefined, describe


def get_member(value: object, name: object) -> object:
    """A member of a mapping, an item of a list or text; undefined where there is none, and of undefined itself.

    Nothing but JSON has members: there are no attributes.
    """
    if isinstance(value, dict):
        if isinstance(name, str) and name in value:
            return value[name]
    elif isinstance(value, Namespace):
        if isinstance(name, str) and name in value.members:
            return value.members[name]
    elif isinstance(value, list | str):
        index = int(name) if isinstance(name, Decimal) and name == name.to_integral_value() else name
        if isinstance(index, int) and not isinstance(index, bool) and -len(value) <= index < len(value):
            return value[index]
    return Undefined(_name_member(value, name))


def follow(value: object, path: object, frame: Frame) -> object:
    """The value at a path like ``a.b.0``, or at an index."""
    frame.spend(1)
    if isinstance(path, int):
        return get_member(value, path)
    if not isinstance(path, str):
        raise EvaluationFailed(f"takes {describe(path)} for the name of a member")
    for part in path.split("."):
        value = get_member(value, int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part)
    return value


def _name_member(value: object, name: object) -> str:
    """What messages call the missing member."""
    of = value.name if isinstance(value, Undefined) else ""
    shown = str(name)[:60] if isinstance(name, str | int | Decimal) else "?"
    return f"{of}.{shown}"[-200:] if of else shown
