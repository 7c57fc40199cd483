"""How messages name a place inside a document: ``lines[0].sku``; the document itself is the empty path.

Names are inserted verbatim (spec/models.md §8), so a dot inside a name cannot be told from a step: such paths are for
people to read, not for programs to follow.
"""


def member_path(path: str, name: str) -> str:
    """The place of a member of the object at ``path``."""
    return f"{path}.{name}" if path else name


def item_path(path: str, index: int) -> str:
    """The place of an item of the array at ``path``."""
    return f"{path}[{index}]"
