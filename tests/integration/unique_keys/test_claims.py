"""Claims in the database: how they are found, and what the commit statement makes of a race."""

import pytest

from statewright.storage.columns import ENTITY_COLUMNS
from statewright.storage.commit import overlay
from statewright.storage.commit.statement import CommitStatement
from tests.database import connected

FILL = """
    INSERT INTO unique_claim SELECT 'acme', gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 20000);
"""

ROW_PARAMETERS = len(ENTITY_COLUMNS.staged) + 1
COMMIT_CLAIMS = CommitStatement().compose("claims")

STATEMENTS = {
    "commit": (COMMIT_CLAIMS, ROW_PARAMETERS + 1),
    "commit with tasks": (CommitStatement().compose("claims", "tasks"), ROW_PARAMETERS + 2),
    "holders": (overlay.HOLDERS, 2),
}


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "never analysed"])
@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_scans_the_claims(database: str, name: str, analysed: bool) -> None:
    """Whatever the parameters: this is the plan that a connection keeps."""
    statement, parameters = STATEMENTS[name]
    async with connected(database) as connection:
        await connection.execute(FILL)
        if analysed:
            await connection.execute("ANALYZE")
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE hot AS {statement}")
        nothing = ", ".join(["NULL"] * parameters)
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN (COSTS off) EXECUTE hot ({nothing})"))
    assert "Seq Scan on unique_claim" not in plan, plan


async def test_a_plan_made_while_the_table_was_empty_probes_the_index(database: str) -> None:
    async with connected(database) as connection:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE hot AS {COMMIT_CLAIMS}")
        nothing = ", ".join(["NULL"] * (ROW_PARAMETERS + 1))
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN (COSTS off) EXECUTE hot ({nothing})"))
    assert "Seq Scan on unique_claim" not in plan, plan
