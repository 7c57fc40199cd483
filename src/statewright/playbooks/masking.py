"""Keeping secrets out of what is reported and stored."""

from collections.abc import Iterator
from typing import Final

from statewright.jsonval.values import JsonValue

MASK: Final = "***"
MIN_SECRET_CHARS: Final = 6
"""Shorter texts of a credential are no secrets worth the name, and would be found everywhere."""


def list_secrets(keychain: JsonValue) -> tuple[str, ...]:
    """The texts of resolved credentials, the longest first."""
    return tuple(sorted(set(_walk(keychain)), key=lambda text: (-len(text), text)))


def mask(value: JsonValue, secrets: tuple[str, ...]) -> JsonValue:
    """The value with every secret in its texts and names replaced. The same object where there are no secrets."""
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, dict):
        return {str(mask(name, secrets)): mask(member, secrets) for name, member in value.items()}
    if isinstance(value, list):
        return [mask(item, secrets) for item in value]
    return value


def _walk(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= MIN_SECRET_CHARS:
            yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _walk(part)
