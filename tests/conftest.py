"""Fixtures for all tests. Nothing here starts a server before a test asks for a database."""

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from statewright.telemetry import logs
from tests.database import Run, Template

# How long an example takes says something about the machine, not about the law it tests. Every run draws the same
# examples, so that a change is judged by what it changes; STATEWRIGHT_TEST_RANDOM=1 draws new ones.
hypothesis.settings.register_profile(
    "statewright", deadline=None, derandomize=not os.environ.get("STATEWRIGHT_TEST_RANDOM")
)
hypothesis.settings.load_profile("statewright")

RUN = pytest.StashKey[Run]()

# Collected tests are a million objects that stay. With the usual thresholds a quarter of the time that it takes to
# import them goes into looking for garbage among them.
gc.set_threshold(20_000, 20, 100)


def pytest_configure(config: pytest.Config) -> None:
    """The main process begins the run; the workers of pytest-xdist join it."""
    joined: dict[str, str] | None = getattr(config, "workerinput", None)
    config.stash[RUN] = Run(Path(joined["database_run"])) if joined else Run.begin()


def pytest_collection_finish() -> None:
    """What was collected stays for as long as the process, and no collection of garbage need look at it."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # of pytest-xdist, which has no public type for it
    """Tell a worker which run it belongs to."""
    node.workerinput["database_run"] = str(node.config.stash[RUN].directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The run ends with its main process."""
    if not hasattr(config, "workerinput") and RUN in config.stash:
        config.stash[RUN].end()


@pytest.fixture(autouse=True)
def _restore_log() -> Iterator[None]:
    """Level, form and stream of the log belong to the process: a test that changes them does so for itself."""
    root = logging.getLogger()
    level, handlers, severity = logs.get_level(), list(root.handlers), root.level
    yield
    logs.configure(level, "text")
    root.handlers = handlers
    root.setLevel(severity)
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def database_server(pytestconfig: pytest.Config) -> str:
    """The URL of the PostgreSQL server that all tests of this run share."""
    return pytestconfig.stash[RUN].server()


@pytest.fixture(scope="session")
def database_template(database_server: str) -> Iterator[Template]:
    """A migrated database to clone; this worker's own."""
    template = Template(database_server)
    asyncio.run(template.create())
    yield template
    asyncio.run(template.drop())


@pytest.fixture
async def database(database_template: Template) -> AsyncIterator[str]:
    """The URL of a fresh, migrated database that only this test knows."""
    async with database_template.clone() as url:
        yield url
