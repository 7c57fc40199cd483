"""Nodes of an earlier state beside those of the present one, on one database (docs/guides/upgrade.md)."""

import threading
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.e2e.program import Program, started
from tests.service import Api
from tests.upgrades.earlier import SourcesMissing, restore, unpack_sources
from tests.upgrades.load import Load, read_all, under_load

EARLIEST = "982cdd4"
SIDE_BY_SIDE_S = 10.0
MIN_ROUNDS = 20
"""Of each node while both serve; several hundred where nothing else runs."""


def apis(program: Program) -> tuple[Api, Api]:
    return program.api(), program.api(context_path="")


async def test_old_and_new_nodes_serve_side_by_side(tmp_path: Path, empty_database: str) -> None:
    """The old one serves while the new one migrates; then both do. Nothing acknowledged is lost."""
    try:
        program = unpack_sources(EARLIEST, tmp_path / "sources")
    except SourcesMissing as reason:
        pytest.skip(f"the sources of {EARLIEST} are not here: {reason}")
    await restore(EARLIEST, empty_database)
    for home in ("old", "new"):
        (tmp_path / home).mkdir()
    load, numbers = Load(), count(10_000)
    with started(tmp_path / "old", "serve", executable=program, POSTGRES_URL=empty_database) as old:
        old.ready()
        with ExitStack() as clients:
            clients.enter_context(under_load(apis(old), load=load, numbers=numbers))
            with started(tmp_path / "new", POSTGRES_URL=empty_database) as new:
                new.ready()
                alone = dict(load.served)
                clients.enter_context(under_load(apis(new), load=load, numbers=numbers))
                threading.Event().wait(SIDE_BY_SIDE_S)  # as long as both are to serve
                clients.close()
                assert load.refused == []
                for node in (old, new):
                    url = node.api().url
                    assert load.served.get(url, 0) - alone.get(url, 0) >= MIN_ROUNDS, load.served
                told = read_all(*apis(new), load)
                assert told == read_all(*apis(old), load)
                orders, instances = told[: len(load.approved)], told[len(load.approved) :]
                assert [order["data"]["total"] for order in orders] == list(load.approved.values())
                assert {order["meta"]["state"] for order in orders} == {"Approved"}
                assert {instance["status"] for instance in instances} == {"COMPLETED"}
                assert old.terminate() == new.terminate() == 0
