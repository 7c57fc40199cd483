"""Pages that renew themselves: which of them hold a stream, and what they do without one
(docs/console.md#live-pages).
"""

from typing import Any

from tests.browser.conftest import OpenTab
from tests.browser.installation import ORDER, Installation
from tests.browser.tab import Tab

HIDE = "() => { Object.defineProperty(document, 'hidden', { get: () => !window.shown, configurable: true }); }"
SHOW = "() => { window.shown = true; document.dispatchEvent(new Event('visibilitychange')); }"
FORGET = "() => { document.getElementById('stale').textContent = ''; }"
"""What the page has noted of the last refusal, so that the next one is seen."""
POLL_MS = 10_000


def a_sale(console: Installation) -> str:
    return console.api.create(ORDER, model="sale/1").id


def await_state(page: Any, state: str) -> None:
    page.locator(".entity-head .state", has_text=state).wait_for()


def test_of_ten_tabs_only_those_that_are_seen_hold_a_stream(open_tab: OpenTab, console: Installation):
    sale, tab = a_sale(console), open_tab(console)
    pages, streams = [tab.page, *(tab.context.new_page() for _ in range(9))], []
    for page in pages[2:]:
        page.add_init_script(f"({HIDE})()")
    for number, page in enumerate(pages):
        page.on("request", lambda request, number=number: "/console/live" in request.url and streams.append(number))
        page.goto(f"/console/entities/{sale}")
    for page in pages:
        page.locator("main h1").wait_for()
    pages[1].locator("summary", has_text="As text").click()
    pages[1].locator("#at").fill("typed")
    pages[0].get_by_role("button", name="Fire").first.click()
    pages[0].locator(".confirm").get_by_role("button", name="Fire").click()
    await_state(pages[0], "PAID")
    await_state(pages[1], "PAID")
    assert pages[1].locator("#at").input_value() == "typed"
    assert pages[1].evaluate("() => document.activeElement.id") == "at"
    assert pages[1].locator("details.text[open]").count() == 1
    assert set(streams) == {0, 1}
    pages[9].evaluate(SHOW)
    await_state(pages[9], "PAID")
    assert set(streams) == {0, 1, 9}


def test_a_page_that_is_seen_before_it_is_complete_opens_one_stream(tab: Tab, console: Installation):
    """As a tab that was opened in the background."""
    sale, streams = a_sale(console), list[str]()
    tab.page.on("request", lambda request: "/console/live" in request.url and streams.append(request.url))
    tab.page.add_init_script(f"addEventListener('DOMContentLoaded', {SHOW})")
    tab.open(f"/console/entities/{sale}")
    tab.page.locator("main h1").wait_for()
    console.api.update(sale, ORDER, fire="PAY")
    await_state(tab.page, "PAID")
    assert len(streams) == 1, streams


def open_with_clock(tab: Tab, path: str) -> Any:
    """A page whose timers a test advances."""
    tab.page.clock.install()
    tab.open(path)
    tab.page.locator("main h1").wait_for()
    return tab.page


def test_a_page_polls_where_no_further_stream_is_opened(tab: Tab, console: Installation):
    tab.expect("503")
    sale = a_sale(console)
    tab.page.route("**/console/live?**", lambda route: route.fulfill(status=503, body="full"))
    with tab.page.expect_response("**/console/live?**"):
        page = open_with_clock(tab, f"/console/entities/{sale}")
    console.api.update(sale, ORDER, fire="PAY")
    page.clock.run_for(POLL_MS + 1000)
    await_state(page, "PAID")
    assert page.locator("#stale").is_hidden()


def test_a_page_that_asked_too_often_asks_every_ten_seconds_and_keeps_what_it_has(tab: Tab, console: Installation):
    tab.expect("429")
    page = open_with_clock(tab, "/console/")
    asked: list[str] = []
    page.route("**/console/part/status", lambda route: (asked.append("x"), route.fulfill(status=429, body="no"))[1])
    for count in (1, 2, 3):
        page.evaluate(FORGET)
        page.clock.run_for(POLL_MS + 500)
        page.locator("#stale", has_text="asked too often; last good at").wait_for()
        assert page.locator(".part.stale").count() > 0
        assert len(asked) == count
    page.unroute("**/console/part/status")
    page.clock.run_for(2 * POLL_MS + 500)
    page.locator("#stale").wait_for(state="hidden")
    assert page.locator(".part.stale").count() == 0
