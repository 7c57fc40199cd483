"""The page of an entity: reasons, acts on what was seen, history, and what others change meanwhile."""

import json
import re

import httpx
import pytest

from tests.browser.conftest import OpenTab
from tests.browser.installation import HOSTILE, ORDER, Installation
from tests.browser.tab import Tab
from tests.browser.test_workflows import ALLOWED, list_elements, wait_for_diagram
from tests.builders import a_processor, a_workflow, manual
from tests.service import eventually

DIGITS = '{"small": 0.10, "long": 1234567890123456789012345678901234567890, "huge": 1E+400, "odd": 9007199254740993}'


def an_order(console: Installation, **members: object) -> str:
    """A new order; the id."""
    return str(console.api.create(ORDER | members, model="sale/1").id)


def open_entity(tab: Tab, entity_id: str, *more: str) -> None:
    tab.open("/".join(["/console/entities", entity_id, *more]))


def read_state(tab: Tab) -> str:
    return str(tab.page.locator(".entity-head .state").inner_text())


def count_versions(console: Installation, entity_id: str) -> int:
    return len(list_versions(console, entity_id))


def list_versions(console: Installation, entity_id: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = httpx.get(f"{console.root}/ops/v1/entities/{entity_id}/versions").json()["items"]
    return found


def test_a_transition_is_fired_from_the_page(tab: Tab, console: Installation):
    order = an_order(console)
    open_entity(tab, order)
    wait_for_diagram(tab)
    tab.page.locator(".ways li", has_text="PAY").get_by_role("button", name="Fire").click()
    tab.page.get_by_role("heading", name=re.compile("^Fire PAY on")).wait_for()
    tab.page.locator(".confirm").get_by_role("button", name="Fire", exact=True).dblclick()
    tab.page.get_by_text("Done: Fire").wait_for()
    assert read_state(tab) == "PAID"
    assert count_versions(console, order) == 2, "a double click fires once"
    wait_for_diagram(tab)
    assert tab.page.locator("g.node.current", has_text="PAID").count() == 1
    assert tab.page.locator("g.edge.travelled", has_text="PAY").count() == 1
    assert "NEW → PAID" in tab.page.locator(".timeline").inner_text()


def test_a_transition_is_fired_without_a_script(open_tab: OpenTab, console: Installation):
    tab = open_tab(console, script=False)
    open_entity(tab, an_order(console))
    tab.page.locator(".ways li", has_text="PAY").get_by_role("button", name="Fire").click()
    tab.page.get_by_role("button", name="Fire", exact=True).click()
    assert read_state(tab) == "PAID"


def test_what_others_do_appears_without_a_reload_and_what_was_opened_stays(tab: Tab, console: Installation):
    order = an_order(console)
    open_entity(tab, order)
    wait_for_diagram(tab)
    tab.page.locator("summary", has_text="As text").click()
    tab.page.locator("#at").fill("typed")
    console.api.update(order, ORDER, fire="PAY")
    tab.page.locator(".entity-head .state", has_text="PAID").wait_for()
    tab.page.locator("g.node.current", has_text="PAID").wait_for()
    tab.page.locator(".timeline", has_text="NEW → PAID").wait_for()
    assert tab.page.locator("details.text[open]").count() == 1
    assert tab.page.locator("#at").input_value() == "typed"
    assert tab.page.evaluate("() => document.activeElement.id") == "at"


def test_a_transition_that_cannot_fire_says_why_and_is_refused_all_the_same(tab: Tab, console: Installation):
    order = an_order(console, amount=9800.50)
    open_entity(tab, order)
    line = tab.page.locator(".ways li", has_text="APPROVE")
    assert "$.amount GREATER_THAN 10000 · stored 9800.50 · false" in line.inner_text().replace("9800.5 ", "9800.50 ")
    assert line.get_by_role("button").count() == 0
    seen = list_versions(console, order)[0]["transactionId"]
    tab.expect("400")
    tab.open(f"/console/confirm/fire?id={order}&seen={seen}&model=sale/1&transition=APPROVE")
    tab.page.locator(".confirm").get_by_role("button", name="Fire", exact=True).click()
    tab.page.get_by_text("criterion not matched").wait_for()
    assert count_versions(console, order) == 1


def test_an_entity_that_was_changed_since_is_not_overwritten(tab: Tab, console: Installation):
    order = an_order(console)
    open_entity(tab, order, "data")
    tab.page.locator("#document").fill(json.dumps(ORDER | {"customer": "mine"}))
    console.api.update(order, ORDER | {"customer": "theirs"})
    tab.expect("412")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_role("heading", name="It has changed since you looked").wait_for()
    assert "theirs" in tab.page.locator(".differences").inner_text()
    assert "mine" in tab.page.locator("#document").input_value()
    assert count_versions(console, order) == 2
    tab.page.get_by_role("button", name="Save over it").click()
    tab.page.get_by_text("Done: Save").wait_for()
    assert console.api.read(order)["data"]["customer"] == "mine"


def test_a_form_that_is_sent_twice_acts_once(tab: Tab, console: Installation):
    order = an_order(console)
    seen = list_versions(console, order)[0]["transactionId"]
    tab.open(f"/console/confirm/fire?id={order}&seen={seen}&model=sale/1&transition=PAY")
    fields = tab.page.evaluate(
        "() => Object.fromEntries(new FormData(document.querySelector('main form[method=post]')))"
    )
    headers = {"origin": console.root, "sec-fetch-site": "same-origin"}
    for _ in range(2):
        answer = tab.context.request.post("/console/do/fire", form=fields, headers=headers, max_redirects=0)
        assert answer.status == 303
    assert count_versions(console, order) == 2


def test_a_reload_after_a_form_acts_once_and_going_back_keeps_the_instant(tab: Tab, console: Installation):
    order = an_order(console)
    before = list_versions(console, order)[0]["at"]
    open_entity(tab, order)
    tab.page.locator(".ways li", has_text="PAY").get_by_role("button", name="Fire").click()
    tab.page.locator(".confirm").get_by_role("button", name="Fire", exact=True).click()
    tab.page.get_by_text("Done: Fire").wait_for()
    tab.page.reload()
    tab.page.go_back()
    tab.page.go_forward()
    assert read_state(tab) == "PAID"
    assert count_versions(console, order) == 2
    open_entity(tab, f"{order}?at={before}")
    tab.page.get_by_role("link", name="Versions", exact=True).click()
    tab.page.get_by_role("heading", name="Versions").wait_for()
    tab.page.go_back()
    assert read_state(tab) == "NEW"
    tab.page.reload()
    assert read_state(tab) == "NEW"
    assert tab.page.get_by_text("As it was on").is_visible()


def test_an_instant_of_which_the_versions_were_removed_says_so(tab: Tab, console: Installation):
    console.api.a_model(model="worn/1", sample={"n": 1})
    entity = str(console.api.create({"n": 1}, model="worn/1").id)
    before = list_versions(console, entity)[0]["at"]
    console.api.update(entity, {"n": 2})
    tab.open("/console/admin/retention")
    tab.page.get_by_label("Model", exact=True).fill("worn")
    tab.page.get_by_label("Versions that were superseded").fill("1ms")
    tab.page.get_by_role("button", name="Prune now").click()
    tab.page.get_by_text("the API has no trial of it").wait_for()
    tab.page.locator(".confirm").get_by_role("button", name="Prune now").click()
    tab.page.get_by_text("1 version was removed that had been superseded over 1ms ago. That was all.").wait_for()
    assert tab.find_violations() == []
    tab.expect("410")
    open_entity(tab, f"{entity}?at={before}")
    assert "HISTORY_PRUNED" in tab.page.locator(".problem").inner_text()
    assert count_versions(console, entity) == 1


def test_numbers_are_shown_and_saved_with_their_digits(tab: Tab, console: Installation):
    headers = {"content-type": "application/json"}
    sample = DIGITS.replace("{", '{"note": "x", ')
    assert tab.context.request.post("/api/model/import/JSON/SAMPLE_DATA/digits/1", data=sample, headers=headers).ok
    assert tab.context.request.put("/api/model/digits/1/lock").ok
    created = tab.context.request.post("/api/entity/JSON/digits/1", data=DIGITS, headers=headers)
    assert created.ok, created.text()
    entity = created.json()[0]["entityIds"][0]
    open_entity(tab, entity)
    for digits in ("0.10", "1234567890123456789012345678901234567890", "1" + 400 * "0", "9007199254740993"):
        assert tab.page.locator(".tree").get_by_text(digits, exact=True).is_visible()
    open_entity(tab, entity, "data")
    text = tab.page.locator("#document").input_value()
    tab.page.locator("#document").fill(text.replace("{", '{"note": "1.10",', 1))
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_text("Done: Save").wait_for()
    stored = tab.context.request.get(f"/api/entity/{entity}").text()
    before = tab.context.request.get(f"/api/entity/{entity}?transactionId={created.json()[0]['transactionId']}").text()
    numbers = re.compile(r'"(?:small|long|huge|odd)":[^,}]+')
    assert numbers.findall(stored) == numbers.findall(before)
    assert '"small":0.10' in stored


def test_versions_are_compared_and_a_former_one_is_restored(tab: Tab, console: Installation):
    order = an_order(console, customer="first")
    console.api.update(order, ORDER | {"customer": "second"})
    open_entity(tab, order, "versions")
    tab.page.locator("tbody tr").last.get_by_role("link", name="Compare with current").click()
    assert "first" in tab.page.locator(".differences").inner_text()
    open_entity(tab, order, "versions")
    tab.page.get_by_role("button", name="Restore this version").last.click()
    tab.page.get_by_text("1 place changes.").wait_for()
    tab.page.get_by_label("Reason").fill("wrong edit")
    tab.page.locator(".confirm").get_by_role("button", name="Restore", exact=True).click()
    tab.page.get_by_text("Done: Restore").wait_for()
    assert console.api.read(order)["data"]["customer"] == "first"
    assert count_versions(console, order) == 3


def test_an_entity_is_shown_as_it_was_without_any_act(tab: Tab, console: Installation):
    order = an_order(console)
    before = list_versions(console, order)[0]["at"]
    console.api.update(order, ORDER, fire="PAY")
    open_entity(tab, f"{order}?at={before}")
    assert read_state(tab) == "NEW"
    assert tab.page.get_by_text("As it was on").is_visible()
    assert tab.page.locator("main form[action^='/console/confirm']").count() == 0
    assert tab.page.locator("#live").count() == 0


def test_a_deleted_entity_shows_its_last_version(tab: Tab, console: Installation):
    order = an_order(console)
    tab.expect("404")  # of a part that asks again, just before the page goes on
    open_entity(tab, order)
    tab.page.get_by_role("button", name="Delete").click()
    tab.page.locator(".confirm").get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_text("it was last in").wait_for()
    assert tab.page.get_by_role("button", name="Fire").count() == 0


def test_what_is_no_id_and_what_is_not_there_is_said(tab: Tab):
    tab.expect("404")
    for entity_id in ("nonsense", "019a0000-0000-7000-8000-000000000000"):
        response = tab.open(f"/console/entities/{entity_id}")
        assert response.status == 404
        assert tab.page.get_by_role("heading", name="There is no such thing here").is_visible()


def test_a_suspended_entity_says_so_and_is_resumed(tab: Tab, console: Installation):
    order = an_order(console)
    open_entity(tab, order)
    tab.page.get_by_role("button", name="Suspend").click()
    tab.page.get_by_label("Reason").fill("look into it")
    tab.page.locator(".confirm").get_by_role("button", name="Suspend", exact=True).click()
    tab.page.get_by_text("look into it").first.wait_for()
    tab.page.get_by_role("button", name="Resume").click()
    tab.page.get_by_label("Reason").fill("done")
    tab.page.locator(".confirm").get_by_role("button", name="Resume", exact=True).click()
    tab.page.get_by_text("Done: Resume").wait_for()
    assert tab.page.get_by_text("look into it").count() == 0


@pytest.fixture(scope="module")
def hostile_entity(console: Installation) -> str:
    """An entity with hostile names of states and transitions, and hostile data."""
    names = [HOSTILE, '"]; n9 [label="', "\\N\\"]
    states = {name: {"transitions": [manual(name, to=names[0])]} for name in names}
    workflow = a_workflow(NEW=[]) | {"name": HOSTILE[:100], "initialState": names[0], "states": states}
    deep: object = "bottom"
    for _ in range(40):
        deep = {"in": deep}
    sample = {"text": HOSTILE, HOSTILE[:60].replace(".", ""): "x", "long": "y", "deep": deep}
    console.api.a_model(workflow, model="hostile-data/1", sample=sample)
    return str(console.api.create(sample | {"long": "y" * 100_000}, model="hostile-data/1").id)


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
def test_hostile_data_is_text(open_tab: OpenTab, console: Installation, hostile_entity: str, width: int, dark: bool):
    tab = open_tab(console, width=width, dark=dark)
    for page in ("", "/timeline", "/versions", "/diff", "/data"):
        open_entity(tab, hostile_entity + page)
        if not page:
            wait_for_diagram(tab)
            assert list_elements(tab) <= ALLOWED
        assert tab.page.locator("main script, main img, main [onerror]").count() == 0
        assert tab.measure_overflow() <= 0, page
        assert page or tab.find_violations() == []  # the other pages are looked at by test_routes


def test_several_tabs_hear_of_one_change(open_tab: OpenTab, console: Installation):
    order = an_order(console)
    tab = open_tab(console)
    pages = [tab.page, *(tab.context.new_page() for _ in range(3))]
    for page in pages:
        page.goto(f"/console/entities/{order}")
    pages[0].bring_to_front()
    console.api.update(order, ORDER, fire="PAY")
    pages[0].locator(".entity-head .state", has_text="PAID").wait_for()
    pages[3].bring_to_front()
    pages[3].locator(".entity-head .state", has_text="PAID").wait_for()


def test_an_entity_is_compared_with_yesterday_in_two_clicks(tab: Tab, console: Installation):
    open_entity(tab, an_order(console))
    tab.page.get_by_role("link", name="Versions", exact=True).click()
    tab.expect("404")
    tab.page.get_by_role("link", name="Compare with yesterday").click()
    tab.page.get_by_text("There was no such version then").wait_for()
    assert tab.page.get_by_role("link", name="See which versions there are").is_visible()


def test_an_incident_is_shown_where_it_happened_and_leads_to_its_retry(tab: Tab, console: Installation):
    workflow = a_workflow("calls", NEW=[manual("CALL", to="NEW", processors=[a_processor("call", tags="nobody")])])
    console.api.a_model(workflow, model="troubled/1", sample={"a": 1})
    entity = str(console.api.create({"a": 1}, model="troubled/1").id)
    open_entity(tab, entity)
    line = tab.page.locator(".ways li", has_text="CALL")
    assert "no worker with its tags is connected" in line.inner_text()
    assert tab.page.locator("[data-marks]").get_attribute("data-marks").count("no worker has its tags") == 1
    refused = tab.context.request.patch(
        f"/api/entity/JSON/{entity}/CALL",
        data="{}",
        headers={"content-type": "application/merge-patch+json", "if-match": "*"},
    )
    assert not refused.ok
    eventually(lambda: httpx.get(f"{console.root}/ops/v1/incidents?entityId={entity}").json()["items"])
    open_entity(tab, entity)
    incident = tab.page.locator(".ways li", has_text="Incident")
    assert incident.get_by_role("button", name="Retry").is_visible()
    incident.get_by_role("link").click()
    tab.page.wait_for_url("**/console/incidents/*")
