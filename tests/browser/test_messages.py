"""Edge messages (docs/console.md#pages)."""

from playwright.sync_api import expect

from tests.browser.installation import HOSTILE, Installation
from tests.browser.tab import Tab
from tests.service import done


def test_a_message_with_hostile_text_is_shown_as_text_and_deleted(tab: Tab, console: Installation):
    page = tab.page
    [stored] = done(
        console.api.post(
            "/message/new/harm", {"payload": {"text": HOSTILE}, "meta-data": {}}, content_type="application/json"
        )
    )
    [message] = stored["entityIds"]
    tab.open("/console/messages")
    assert tab.find_violations() == []
    page.get_by_role("link", name="harm").click()
    expect(page.locator(".tree").first).to_contain_text("<script>alert(1)</script>")
    assert tab.find_violations() == []
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete message").click()
    expect(page.locator("h1")).to_have_text("Messages")
    assert console.api.get(f"/message/{message}").status_code == 404
