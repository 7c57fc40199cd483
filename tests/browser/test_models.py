"""A model at a glance, and counts of its entities (docs/console.md#counts)."""

from playwright.sync_api import Route, expect

from statewright.console.frame import Renderer
from statewright.console.live import ModelCounts
from statewright.console.pages.model import CountsView
from statewright.console.session import Viewer
from tests.browser.tab import Tab


def test_the_overview_draws_workflows_with_live_counts_that_lead_to_entities(tab: Tab):
    tab.open("/console/models/order/1")
    picture = tab.page.locator("#diagram-0")
    expect(picture).to_have_attribute("data-state", "drawn")
    paid = picture.get_by_role("link", name="PAID: 5 entities", exact=False)
    expect(paid).to_be_visible()
    tab.page.get_by_text("fulfilment as a table").click()
    row = tab.page.get_by_role("row", name="PAID", exact=False).filter(has_text="SHIP")
    expect(row).to_contain_text("CANCEL → CANCELLED")
    paid.click()
    expect(tab.page.locator("table.rows tbody tr")).to_have_count(5)


def test_what_takes_long_to_count_is_asked_for_until_it_is_there(tab: Tab):
    counting = CountsView(name="order", version=1, counts=ModelCounts(is_counting=True))
    left = ["first", "second"]

    def answer(route: Route) -> None:
        if not left:
            route.continue_()
            return
        left.pop()
        html = Renderer(lambda: 0).render("parts/counts.html", view=counting, viewer=Viewer())
        route.fulfill(status=200, content_type="text/html", body=html)

    path = "/console/part/models/order/1/counts"
    tab.page.route(f"**{path}", answer)
    tab.open("/console/")
    expect(tab.page.locator(f'.part[hx-get="{path}"]')).to_contain_text("PAID 5", timeout=20_000)
    assert left == []


ASK_AGAIN = (
    "() => document.querySelectorAll('[data-live], [data-loaded]').forEach((part) => htmx.trigger(part, 'every'))"
)


def test_nothing_asks_again_while_the_page_is_paused(tab: Tab):
    tab.open("/console/")
    expect(tab.page.locator("nav .number[data-loaded]")).to_have_count(2)
    toggle = tab.page.locator("#live-toggle")
    toggle.click()
    expect(toggle).to_have_text("Paused")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.evaluate(ASK_AGAIN)
    assert asked == []
    toggle.click()
    with tab.page.expect_request("**/console/part/incidents/count"):
        tab.page.evaluate(ASK_AGAIN)
