"""The migrations of this program, without a database."""

from pathlib import Path

import pytest

from statewright.storage.migrate import MIGRATIONS, Migration, read_checksums

CHECKSUMS = Path(__file__).parents[3] / "src" / "statewright" / "storage" / "migrations" / "checksums.txt"


def test_every_migration_has_a_number_of_its_own() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


@pytest.mark.parametrize("migration", MIGRATIONS, ids=[migration.name for migration in MIGRATIONS])
def test_no_migration_is_edited_after_it_landed(migration: Migration) -> None:
    """Not even a comment: databases that were migrated with the text would be refused. What is to change is a
    migration of its own. A new one needs its line in checksums.txt.
    """
    line = f"{migration.checksum} {migration.name}"
    landed = read_checksums(CHECKSUMS.parent).get(migration.name)
    assert landed is not None, f"a new migration needs its line in checksums.txt: {line}"
    assert landed[0] == migration.checksum, f"{migration.name} has landed and must stay as it was"


def test_no_migration_is_taken_away_or_renamed_after_it_landed() -> None:
    assert sorted(read_checksums(CHECKSUMS.parent)) == [migration.name for migration in MIGRATIONS]


def test_another_text_of_a_migration_counts_for_a_reason_only() -> None:
    """The line before a second one of a file is a comment."""
    lines = CHECKSUMS.read_text().splitlines()
    names = [line.partition(" ")[2] for line in lines]
    second = [number for number, line in enumerate(lines) if line[:1] != "#" and names[number] in names[:number]]
    assert all(lines[number - 1].startswith("# ") for number in second)
    assert len(second) == sum(len(migration.equivalents) for migration in MIGRATIONS)
