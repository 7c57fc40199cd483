"""The settings of the service, and how they are read from environment variables.

A field of :class:`Settings` such as ``http_port`` is read from ``STATEWRIGHT_HTTP_PORT``, else from its alias
``CYODA_HTTP_PORT``. A secret can also stand in a file that ``…_FILE`` names; the file wins over the plain variable of
the same prefix. Whatever cannot be understood stops the start with :class:`SettingsError`, which names the variable.
Only :mod:`statewright.cli.main` reads the process environment; parts receive the few values they need.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from msgspec import structs

from statewright.settings import reading as rules
from statewright.settings.kinds import Retention, Secret, read_duration, read_period, split_encryption_keys
from statewright.settings.reading import SettingsError, find_unused, read_settings, refuse_unknown
from statewright.settings.table import SETTINGS, Table, list_variables

__all__ = [
    "SETTINGS",
    "Retention",
    "Secret",
    "Settings",
    "SettingsError",
    "list_variables",
    "read_duration",
    "read_period",
    "split_encryption_keys",
]


class Settings(Table, frozen=True, kw_only=True):
    """The settings of one process. ``Settings()`` holds the defaults; they need no environment and break no rule."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """All settings of ``environment``. Raises :class:`SettingsError` for the first that cannot stand."""
        refuse_unknown(environment)
        settings = cls.read_partial(environment, SETTINGS)
        rules.enforce(settings)
        return structs.replace(
            settings,
            iam_mock_roles=settings.iam_mock_roles or cls().iam_mock_roles,
            warnings=(*find_unused(environment), *rules.find_doubts(settings)),
        )

    @classmethod
    def for_migration(cls, environment: Mapping[str, str]) -> Self:
        """What a migration needs; it may run without the other secrets
        (docs/reference/service.md#what-stops-the-start).
        """
        sections = {name for name, setting in SETTINGS.items() if setting.section in ("Storage", "Logging")}
        settings = cls.read_partial(environment, sections | {"startup_timeout"})
        rules.refuse_missing_url(settings)
        return settings

    @classmethod
    def read_partial(cls, environment: Mapping[str, str], names: Collection[str]) -> Self:
        """Only the settings ``names``, without the rules that combine several; the others keep their defaults."""
        found = read_settings(names, environment)
        # Any: a reader gives a value of its field's type, which the type checkers cannot see; a test does.
        values: dict[str, Any] = {name: reading.value for name, reading in found.items()}
        settings = cls(**values, sources={name: reading.variable for name, reading in found.items()})
        return structs.replace(
            settings,
            data_directory=_resolve_data_directory(settings, environment),
            postgres_min_conns=min(settings.postgres_min_conns, settings.postgres_max_conns),
        )


def _resolve_data_directory(settings: Table, environment: Mapping[str, str]) -> Path:
    """The data directory with ``~`` expanded. Relative XDG base directories are ignored, as that specification says."""
    base, home = Path(environment.get("XDG_DATA_HOME", "")), environment.get("HOME", "")
    directory = settings.data_directory
    if "data_directory" not in settings.sources and base.is_absolute():
        return base / "statewright"
    return Path(home, *directory.parts[1:]) if home and directory.parts[:1] == ("~",) else directory
