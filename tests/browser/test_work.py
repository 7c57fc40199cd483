"""Queues, workers and incidents (docs/console.md#pages)."""

from urllib.parse import quote

from playwright.sync_api import expect

from tests.browser.installation import HOSTILE, ORDER, Installation
from tests.browser.tab import Tab
from tests.browser.work import APPROVAL, PARCEL, SENDING, a_job, fail_job, list_open_incidents, send, start
from tests.service import done, eventually

SECONDS_20 = 20_000


def test_a_queue_without_a_worker_is_one_click_from_home_and_goes_when_one_comes(tab: Tab, console: Installation):
    root = console.program.api(context_path="")
    send(root, "/v1/definitions", a_job("shipping"))
    tab.open("/console/")
    start(root, "do::shipping")
    line = tab.page.locator(".alerts a", has_text="shipping")
    line.wait_for(timeout=SECONDS_20)
    line.click()
    expect(tab.page.locator("h1")).to_have_text("Job type shipping")
    expect(tab.page.locator(".notice.bad")).to_contain_text("1 waits")
    [job] = send(root, "/v1/jobs/poll", {"workerId": "w-2", "jobTypes": ["shipping"]})["jobs"]
    expect(tab.page.locator(".notice.bad")).to_have_count(0, timeout=SECONDS_20)
    send(root, f"/v1/jobs/{job['id']}/complete", {"workerId": "w-2"})
    tab.open("/console/")
    expect(tab.page.locator(".alerts a", has_text="shipping")).to_have_count(0, timeout=SECONDS_20)


def test_a_job_type_is_suspended_and_resumed_with_a_reason(tab: Tab, console: Installation):
    page = tab.page
    tab.open("/console/queues/JOB_TYPE/suspended-work")
    page.get_by_role("button", name="Suspend").click()
    page.get_by_label("Reason").fill(HOSTILE)
    page.locator(".confirm").get_by_role("button", name="Suspend").click()
    expect(page.locator(".part .notice.warn")).to_contain_text("<script>alert(1)</script>")
    page.get_by_role("button", name="Resume").click()
    page.get_by_label("Reason").fill("repaired")
    page.locator(".confirm").get_by_role("button", name="Resume").click()
    expect(page.locator(".part .notice.warn")).to_have_count(0)
    [suspension] = [
        each
        for each in done(console.program.api(context_path="").get("/ops/v1/suspensions"))["items"]
        if each.get("name") == "suspended-work"
    ]
    assert not suspension["active"]


def test_a_retry_that_fails_again_is_no_success_and_one_with_a_mended_cause_closes_the_incident(
    tab: Tab, console: Installation
):
    api, root, page = console.api, console.program.api(context_path=""), tab.page
    api.a_model(SENDING, model="crate/1", sample=PARCEL)
    crate = api.create(PARCEL, model="crate/1")
    api.put(f"/entity/JSON/{crate.id}/SEND", PARCEL)
    eventually(lambda: bool(list_open_incidents(root, f"?entityId={crate.id}")))
    [incident] = list_open_incidents(root, f"?entityId={crate.id}")

    tab.expect("503")
    tab.open(f"/console/incidents/{incident['id']}")
    page.get_by_role("button", name="Retry", exact=True).click()
    page.locator(".confirm").get_by_role("button", name="Retry", exact=True).click()
    expect(page.locator(".problem")).to_contain_text("NO_COMPUTE_MEMBER_FOR_TAG")
    page.get_by_role("link", name="Back to where you were").click()
    expect(page.locator(".badge").first).to_contain_text("open")
    eventually(lambda: [each["occurrences"] for each in list_open_incidents(root, f"?entityId={crate.id}")] == [2])
    page.reload()
    expect(page.locator("main")).to_contain_text("2 times")

    mended = {
        **SENDING,
        "states": {"NEW": {"transitions": [{"name": "SEND", "next": "SENT", "manual": True}]}, "SENT": {}},
    }
    api.import_workflows(mended, model="crate/1")
    page.get_by_role("button", name="Retry", exact=True).click()
    page.locator(".confirm").get_by_role("button", name="Retry", exact=True).click()
    expect(page.locator(".notice.ok")).to_contain_text("retried")
    assert api.state(crate.id) == "SENT"


def test_a_retry_of_what_was_written_since_shows_the_change_and_offers_force(tab: Tab, console: Installation):
    api, root, page = console.api, console.program.api(context_path=""), tab.page
    api.a_model(SENDING, model="casket/1", sample=PARCEL)
    box = api.create(PARCEL, model="casket/1")
    api.put(f"/entity/JSON/{box.id}/SEND", PARCEL | {"weight": 2.50})
    eventually(lambda: bool(list_open_incidents(root, f"?entityId={box.id}")))
    [incident] = list_open_incidents(root, f"?entityId={box.id}")
    api.update(box.id, PARCEL | {"to": "Grace"})
    tab.expect("409", "503")
    tab.open(f"/console/incidents/{incident['id']}")
    page.get_by_role("button", name="Retry", exact=True).click()
    page.locator(".confirm").get_by_role("button", name="Retry", exact=True).click()
    expect(page.locator("h1")).to_have_text("It was written since")
    expect(page.locator(".changes")).to_contain_text("Grace")
    page.get_by_role("button", name="Retry and overwrite").click()
    expect(page.locator(".problem")).to_contain_text("NO_COMPUTE_MEMBER_FOR_TAG")


def test_a_failing_worker_gives_a_group_that_a_retry_opens_again_until_it_is_repaired(tab: Tab, console: Installation):
    root, page = console.program.api(context_path=""), tab.page
    send(root, "/v1/definitions", a_job("weld"))
    start(root, "do::weld")
    rows = page.locator("tbody tr")

    def retry() -> None:
        rows.get_by_role("button", name="Retry").click()
        page.locator(".confirm").get_by_role("button", name="Retry").click()
        expect(page.locator(".empty")).to_contain_text("No open incident has this cause")

    fail_job(root, "weld", "no gas")
    [incident] = [each for each in list_open_incidents(root) if "no gas" in each["message"]]
    tab.open(f"/console/incidents/groups/{incident['fingerprint']}")
    retry()
    fail_job(root, "weld", "no gas")
    page.reload()
    expect(rows).to_have_count(1)
    retry()
    [job] = send(root, "/v1/jobs/poll", {"workerId": "w-1", "jobTypes": ["weld"], "waitSeconds": 10})["jobs"]
    send(root, f"/v1/jobs/{job['id']}/complete", {"workerId": "w-1"})
    page.get_by_role("link", name="Closed").click()
    expect(rows).to_have_count(2)
    assert [each for each in list_open_incidents(root) if "no gas" in each["message"]] == []


def test_a_group_is_two_clicks_from_home_and_says_how_the_whole_is_retried(tab: Tab, console: Installation):
    root, page = console.program.api(context_path=""), tab.page
    send(root, "/v1/definitions", a_job("print"))
    for _ in range(2):
        start(root, "do::print")
        fail_job(root, "print", "paper 17 is out")
    [first, _] = [each for each in list_open_incidents(root) if "paper" in each["message"]]
    tab.open("/console/")
    page.locator("nav a", has_text="Incidents").click()
    page.locator("td a", has_text="paper").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator(".curl").first).to_contain_text(f"incidents retry --group {first['fingerprint']}")


def test_all_that_a_list_shows_is_acted_upon_once_their_number_is_typed(tab: Tab, console: Installation):
    api, page = console.api, tab.page
    done(api.post("/entity/JSON/sale/1", [ORDER | {"customer": "Bulk"}] * 3))
    tab.expect("409")
    named = '{"type":"simple","jsonPath":"$.customer","operatorType":"EQUALS","value":"Bulk"}'
    tab.open(f"/console/models/sale/1/entities?q={quote(named)}")
    page.get_by_role("link", name="Act on all that match").click()
    page.get_by_label("What is done").select_option("TRANSITION")
    page.get_by_label("Transition, of").fill("PAY")
    page.get_by_role("button", name="Find and judge").click()
    expect(page.locator(".standing")).to_contain_text("ready", timeout=SECONDS_20)
    expect(page.locator(".standing")).to_contain_text("0 of 3")
    assert tab.find_violations() == []
    page.get_by_label("To start it").fill("4")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("3 items")
    page.go_back()
    page.get_by_label("To start it").fill("3")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".standing")).to_contain_text("completed", timeout=SECONDS_20)
    expect(page.locator(".standing")).to_contain_text("3 of 3")
    page.get_by_role("link", name="Succeeded").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    tab.open("/console/bulk")
    expect(page.locator("tbody tr").first).to_contain_text("transition")


def test_a_subscription_is_tested_gets_another_secret_and_is_disabled(tab: Tab, console: Installation):
    page, id_ = tab.page, console.own_parameters["/console/subscriptions/{id}"]["id"]
    tab.open("/console/subscriptions")
    page.locator("td.title a").first.click()
    expect(page.locator("tbody tr")).to_contain_text("retrying")
    page.get_by_role("link", name="Delivered").click()
    expect(page.locator("main")).to_contain_text("No event was delivered")
    page.get_by_role("button", name="Send a test", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("does not accept connections")
    tab.open(f"/console/subscriptions/{id_}")
    page.get_by_role("button", name="Rotate secret").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate secret").click()
    expect(page.locator("main")).to_contain_text("whsec_")
    assert tab.find_violations() == []
    page.get_by_role("link", name="Back to the subscription").click()
    expect(page.locator("main")).not_to_contain_text("whsec_")
    for act, other in (("Disable", "Enable"), ("Enable", "Disable")):
        page.get_by_role("button", name=act, exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=act, exact=True).click()
        expect(page.get_by_role("button", name=other, exact=True)).to_be_visible()


def test_a_group_is_closed_as_a_whole(tab: Tab, console: Installation):
    root, page = console.program.api(context_path=""), tab.page
    send(root, "/v1/definitions", a_job("glue"))
    for _ in range(2):
        start(root, "do::glue")
        fail_job(root, "glue", "too dry")
    [first, _] = [each for each in list_open_incidents(root) if "dry" in each["message"]]
    tab.open(f"/console/incidents/groups/{first['fingerprint']}")
    page.get_by_role("button", name="Resolve all").click()
    page.get_by_label("Reason").fill("thrown away")
    page.locator(".confirm").get_by_role("button", name="Resolve all").click()
    expect(page.locator(".standing")).to_contain_text("completed", timeout=SECONDS_20)
    expect(page.locator(".standing")).to_contain_text("2 of 2")
    assert [each for each in list_open_incidents(root) if "dry" in each["message"]] == []


def test_an_incident_is_closed_with_a_reason(tab: Tab, console: Installation):
    root, page = console.program.api(context_path=""), tab.page
    send(root, "/v1/definitions", a_job("fold"))
    start(root, "do::fold")
    fail_job(root, "fold", "torn")
    [incident] = [each for each in list_open_incidents(root) if "torn" in each["message"]]
    tab.open(f"/console/incidents/{incident['id']}")
    page.get_by_role("button", name="Resolve").click()
    page.get_by_label("Reason").fill("done by hand")
    page.locator(".confirm").get_by_role("button", name="Resolve").click()
    expect(page.locator(".notice.ok")).to_contain_text("done by hand")


def test_tasks_are_completed_one_after_the_other_and_an_invalid_value_is_told_at_its_field(
    tab: Tab, console: Installation
):
    root, page = console.program.api(context_path=""), tab.page
    send(root, "/v1/definitions", APPROVAL | {"id": "HR::leave"})
    instances = [start(root, "HR::leave", f"L-{n}", days=40 + n) for n in range(2)]
    tab.expect("400")
    tab.open("/console/")
    page.locator("nav a", has_text="Tasks").click()
    page.get_by_label("Definition").fill("HR::leave")
    page.get_by_role("button", name="Apply").click()
    page.locator("td.title a").first.click()
    expect(page.locator(".facts")).to_contain_text("L-0")
    field = page.get_by_label("Variables that the task adds")
    field.fill("[1]")
    page.get_by_role("button", name="Complete").click()
    expect(page.get_by_role("alert")).to_have_text("This is no JSON object.")
    expect(field).to_have_value("[1]")
    expect(field).to_be_focused()
    assert tab.find_violations() == []
    field.fill('{"approved": true, "rate": 0.10}')
    page.get_by_role("button", name="Complete").click()
    expect(page.locator(".facts")).to_contain_text("L-1")
    page.get_by_role("button", name="Complete").click()
    expect(page.locator(".empty")).to_contain_text("No open task fits")
    for instance in instances:
        assert done(root.get(f"/v1/instances/{instance}"))["status"] == "COMPLETED"
    assert '"rate":0.10' in root.get(f"/v1/instances/{instances[0]}").text.replace(" ", "")


def test_a_task_that_is_done_already_says_so(tab: Tab):
    tab.expect("404")
    assert tab.open("/console/tasks/01M815W06S000CB838GG000001").status == 404
    expect(tab.page.locator(".empty")).to_contain_text("not open any more")


def test_home_tells_of_open_incidents(tab: Tab):
    tab.open("/console/")
    line = tab.page.locator(".alerts li", has_text="open incident")
    assert "newest" in line.inner_text()
    line.get_by_role("link").click()
    tab.page.get_by_role("heading", name="Incidents").wait_for()
