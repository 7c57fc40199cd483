"""One browser and one program for all tests; a fresh context, which no address outside can be reached from, for each.

The recipe is in docs/console.md#tests-in-a-browser.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.installation import Installation, fill
from tests.browser.tab import Tab
from tests.browser.work import fill_work
from tests.database import Template, kept_open
from tests.e2e.program import started

INSTALLED = [path for path in map(Path, ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")) if path.exists()]
CHROMIUM = Path(os.environ.get("STATEWRIGHT_TEST_CHROMIUM", next(iter(INSTALLED), "chromium-headless-shell")))
MISSING = f"no browser at {CHROMIUM}: scripts/install_browser.sh"
ONLY_THIS_MACHINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
"""No name is resolved: a page that asks elsewhere gets nothing, and its tab says so at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a browser there is nothing to see."""
    if CHROMIUM.exists():
        return
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def databases(database_template: Template) -> Iterator[list[str]]:
    """URLs of two databases. They are made before the browser starts: it keeps an event loop running in this thread,
    in which nothing else can run one. For the same reason these tests have a pytest process of their own.
    """
    with kept_open(database_template.clone()) as filled, kept_open(database_template.clone()) as empty:
        yield [filled, empty]


@pytest.fixture(scope="session")
def browser(databases: list[str]) -> Iterator[object]:
    """Chromium, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[browser]'")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=[ONLY_THIS_MACHINE])
        yield browser
        browser.close()


@contextmanager
def start_installation(
    url: str, home: Path, ports: Mapping[str, int] | None = None, *, settings: Mapping[str, str] | None = None
) -> Iterator[Installation]:
    """A program in mock mode while the block runs."""
    with started(home, "serve", ports=ports, POSTGRES_URL=url, LOG_LEVEL="warn", **(settings or {})) as program:
        yield Installation(program.ready(), url)


@pytest.fixture(scope="session")
def console(databases: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A program in mock mode with models, workflows and entities; tests that change something make their own."""
    inside = {"WEBHOOK_ALLOW_HTTP": "true", "WEBHOOK_ALLOW_PRIVATE_NETWORKS": "true"}
    with start_installation(databases[0], tmp_path_factory.mktemp("console"), settings=inside) as installation:
        fill(installation)
        fill_work(installation)
        yield installation


@pytest.fixture(scope="session")
def empty_console(databases: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A program in mock mode that nobody has used yet; tests leave it so."""
    with start_installation(databases[1], tmp_path_factory.mktemp("empty")) as installation:
        yield installation


OpenTab = Callable[..., Tab]


@pytest.fixture
def open_tab(browser: object) -> Iterator[OpenTab]:
    """Opens tabs, each in a context of its own, and fails the test at its end if one of them met what it must not: a
    foreign address, a console error, a report of the policy, a failed request.
    """
    tabs: list[Tab] = []

    def open_one(
        installation: Installation, *, width: int = 1440, dark: bool = False, script: bool = True, **options: object
    ) -> Tab:
        tab = Tab(browser, installation.root, width=width, dark=dark, script=script, **options)
        tabs.append(tab)
        return tab

    yield open_one
    faults = [fault for tab in tabs for fault in tab.close()]
    assert faults == []


@pytest.fixture
def tab(open_tab: OpenTab, console: Installation) -> Tab:
    """A tab of the filled installation, 1440 pixels wide."""
    return open_tab(console)
