"""Claims in the database: how they are found, and what the commit statement makes of a race."""

import pytest

from statewright.storage.commit import overlay
from statewright.storage.commit.statement import CommitStatement
from tests.database import connected, explain_generically

FILL = """
    INSERT INTO unique_claim SELECT 'acme', gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 20000);
"""

COMMIT_CLAIMS = CommitStatement().compose("claims")

STATEMENTS = {
    "commit": COMMIT_CLAIMS,
    "commit with tasks": CommitStatement().compose("claims", "tasks"),
    "holders": overlay.HOLDERS,
}


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "never analysed"])
@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_scans_the_claims(database: str, name: str, analysed: bool) -> None:
    """Whatever the parameters: this is the plan that a connection keeps."""
    async with connected(database) as connection:
        await connection.execute(FILL)
        if analysed:
            await connection.execute("ANALYZE")
        plan = await explain_generically(connection, STATEMENTS[name])
    assert "Seq Scan on unique_claim" not in plan, plan


async def test_a_plan_made_while_the_table_was_empty_probes_the_index(database: str) -> None:
    async with connected(database) as connection:
        plan = await explain_generically(connection, COMMIT_CLAIMS)
    assert "Seq Scan on unique_claim" not in plan, plan
