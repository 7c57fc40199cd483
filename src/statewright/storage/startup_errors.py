"""Why the service does not start on this storage. Each message is one line for the operator.

StartRefused
├── EmbeddedServerRefused      the embedded PostgreSQL cannot run here
│   └── DataDirectoryInUse     another service holds the data directory
└── SchemaRefused              the database's schema does not fit this program
    ├── SchemaNewer            a newer program migrated it
    ├── SchemaOutdated         migrations are pending and may not be applied
    └── SchemaDiffers          an applied migration is not the one this program knows
"""

from pathlib import Path


class StartRefused(Exception):
    """The storage cannot be used as it is; an operator has to act before a restart makes sense."""


class EmbeddedServerRefused(StartRefused):
    """The embedded PostgreSQL cannot run here."""


class DataDirectoryInUse(EmbeddedServerRefused):
    """Another service holds the data directory."""

    def __init__(self, data_directory: Path, holder: str) -> None:
        by = f" (process {holder})" if holder else ""
        super().__init__(f"data directory {data_directory} is in use by another service{by}")


class SchemaRefused(StartRefused):
    """The database's schema does not fit this program."""


class SchemaNewer(SchemaRefused):
    """A newer program migrated the database; going back would need its knowledge."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database schema has version {found}, newer than {known} of this program: install a newer release"
        )


class SchemaOutdated(SchemaRefused):
    """Migrations are pending, and this start is not allowed to apply them."""

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(
            f"the database schema has version {found}, this program needs {needed}:"
            " run `statewright migrate` or allow auto-migrate"
        )


class SchemaDiffers(SchemaRefused):
    """An applied migration is not the one this program knows."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"migration {name} {reason}: this database was migrated by a different build of the program")
