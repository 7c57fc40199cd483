"""The import contracts, and which of them a workflow's ``version`` names.

A version of the form MAJOR.MINOR between 1.1 and the newest one known stands for the strict contract of
docs/reference/workflows.md#workflows: unknown members are refused, ``active`` is honoured, modes and policies are
checked. Everything else that is not newer (absent, ``1``, ``1.0``, ``draft``) stands for the contract of the first
release, where the version is a free text that is kept as it is, unknown members are ignored and an imported workflow
becomes active. Newer versions are unknown and refused (decision W1).
"""

import re
from enum import StrEnum
from typing import Final

from statewright.jsonval.values import JsonObject

_MAJOR: Final = 1
_MIN_MINOR: Final = 1
_MAX_MINOR: Final = 3

CURRENT_VERSION: Final = f"{_MAJOR}.{_MAX_MINOR}"
"""The version that exports of strict workflows carry, whatever was imported (docs/reference/workflows.md#version)."""

_MAJOR_MINOR: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


class Contract(StrEnum):
    """The rules under which a workflow was imported. The values are stored with it."""

    SEED = "SEED"
    STRICT = "STRICT"


def choose_contract(version: str) -> Contract:
    """The contract that ``version`` names, which must not be one that :func:`explain_newer_version` objects to."""
    parts = _MAJOR_MINOR.fullmatch(version)
    if parts is None or parts[1] != str(_MAJOR):
        return Contract.SEED
    return Contract.STRICT if parts[2] in _MINORS else Contract.SEED


def explain_newer_version(version: str) -> str | None:
    """Why ``version`` cannot be imported here; ``None`` when it can (docs/reference/workflows.md#version)."""
    parts = _MAJOR_MINOR.fullmatch(version)
    if parts is None:
        return None
    major, minor = parts[1], parts[2]
    if _exceeds(major, _MAJOR):
        return (
            "workflow schema major version unsupported: "
            f"workflow schema major version {major} unsupported on this server; supported majors: [{_MAJOR}]"
        )
    if major == str(_MAJOR) and _exceeds(minor, _MAX_MINOR):
        return (
            "workflow schema minor version too new: "
            f"this server supports workflow schema up to {CURRENT_VERSION}; payload declares {version}. "
            "Upgrade the server, or export the workflow for an older schema"
        )
    return None


def describe_versions() -> JsonObject:
    """The document of ``GET /help/workflows/schema-version/versions`` (docs/reference/workflows.md#version)."""
    return {
        "current": CURRENT_VERSION,
        "supported": [{"major": _MAJOR, "minMinor": _MIN_MINOR, "maxMinor": _MAX_MINOR}],
    }


_MINORS: Final = frozenset(str(minor) for minor in range(_MIN_MINOR, _MAX_MINOR + 1))


def _exceeds(digits: str, limit: int) -> bool:
    # Compared as text: a version is client input, and a number of thousands of digits costs quadratic time to convert.
    return (len(digits), digits) > (len(str(limit)), str(limit))
