"""Which calculation members a callout may go to, as authors write it."""

import re

_SEPARATOR = re.compile("[,;]")


def required_tags(text: str) -> tuple[str, ...]:
    """The tags asked for by a ``calculationNodesTags`` text, trimmed, lower-cased; none = any member (decision W5)."""
    trimmed = (tag.strip() for tag in _SEPARATOR.split(text))
    return tuple(tag.lower() for tag in trimmed if tag)
