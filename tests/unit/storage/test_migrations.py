"""The migrations of this program, without a database."""

from statewright.storage.migrate import MIGRATIONS


def test_every_migration_has_a_number_of_its_own() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))
