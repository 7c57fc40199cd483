"""When the service does not answer, what was there stays (docs/console.md#live-pages)."""

import signal

from tests.browser.conftest import OpenTab, start_installation
from tests.e2e.program import free_ports
from tests.service import eventually

ASK_AGAIN = "() => htmx.trigger(document.querySelector('[data-live]'), 'every')"
"""What the page does every 10 s."""


def test_what_was_shown_stays_greyed_and_recovers(open_tab: OpenTab, databases: list[str], tmp_path):
    ports = free_ports("HTTP", "GRPC", "ADMIN")
    with start_installation(databases[1], tmp_path, ports) as installation:
        tab = open_tab(installation)
        tab.expect("ERR_CONNECTION_REFUSED", "Failed to fetch", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")
        page = tab.page
        tab.open("/console/")
        page.locator("main h1").wait_for()
        installation.program.tell(signal.SIGTERM)
        installation.program.ended()

        def is_greyed() -> bool:  # what else asks may fail first, and then nothing asks for some seconds
            page.evaluate(ASK_AGAIN)
            return bool(page.locator(".part.stale").count() == 1)

        eventually(is_greyed)
        page.locator("#stale", has_text="last good at").wait_for()
        assert "Nothing is wrong" in page.locator("main").inner_text()
    with start_installation(databases[1], tmp_path, ports):

        def has_recovered() -> bool:
            page.evaluate(ASK_AGAIN)
            return page.locator("#stale").is_hidden()

        eventually(has_recovered)
        assert page.locator(".part.stale").count() == 0
