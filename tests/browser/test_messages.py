"""Edge messages (docs/console.md#pages)."""

from playwright.sync_api import expect

from tests.browser.installation import HOSTILE, Installation
from tests.browser.tab import Tab
from tests.service import done


def test_messages_are_stored_and_the_ticked_ones_deleted(tab: Tab, console: Installation):
    page = tab.page
    for n in range(3):
        tab.open("/console/messages")
        page.get_by_label("Subject").fill("ticked")
        page.get_by_label("Payload as JSON").fill(f'{{"n": 0.{n}0}}')
        page.get_by_role("button", name="Store message").click()
        page.wait_for_url("**/console/messages/*")
        expect(page.locator("h1")).to_have_text("ticked")
        expect(page.locator(".tree").first).to_contain_text(f"0.{n}0")
    tab.open("/console/messages")
    boxes = page.get_by_role("checkbox", name="ticked")
    boxes.nth(0).check()
    boxes.nth(2).check()
    page.get_by_role("button", name="Delete ticked").click()
    expect(page.locator(".confirm h1")).to_have_text("Delete 2 messages?")
    page.get_by_role("button", name="Delete messages").click()
    expect(boxes).to_have_count(1)


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
