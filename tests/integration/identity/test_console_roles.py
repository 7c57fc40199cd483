"""Who may see and do what in the console: somebody who only reads, and somebody of another tenant
(docs/console.md#login). All of it is made from the table of routes, so that no page and no action is forgotten.
"""

import asyncio
import re
from collections.abc import Iterator
from json import dumps
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest

from statewright.console.process_languages import find_language
from statewright.console.request import Action, Form, Page
from statewright.console.routes import ROUTES
from tests.browser.installation import FULFILMENT, ONBOARDING, ORDER, PLAYBOOK, Installation, fill
from tests.browser.work import fill_work, show_worker
from tests.database import connected
from tests.integration.identity.test_console_login import Visit
from tests.service import Api, RunningService, a_token, done

OWNER = f"owner-{uuid4().hex[:12]}"
ROLES = ["ROLE_ADMIN", "ROLE_M2M", "ROLE_OPERATOR"]
ACTIONS = {route.name: route for route in ROUTES if isinstance(route, Action)}
PAGES = [route for route in ROUTES if isinstance(route, Page)]
CHECKS = {"check_definition", "check_import", "run_search", "simulate_workflow", "validate_document"}
"""Actions that change nothing of the tenant, which the API allows to somebody who only reads."""
OF_NOTHING = {
    *("create_message", "delete_messages"),  # ids of others are passed over, as the test sees
    *("register_trusted_key", "reload_providers", "issue_key_pair"),
    *("create_client", "register_provider", "set_log_level", "check_definition", "upload_definition"),
    *("import_sample", "learn_sample", "suspend_queue", "suspend_model", "suspend_workflow"),
}
"""Actions on what need not exist before, so that no id of another tenant is in them."""
OF_NO_TENANT = {
    "help_topic",
    *("queue", "queue_status"),  # every name is that of a queue
    "transaction",  # one of which nothing is left looks like one that wrote nothing
    "entities_build",  # turns a form into an address, and asks nobody
}
"""Pages that are there whatever stands in their path."""
EVERYTHING = '{"type": "group", "operator": "AND", "conditions": []}'
ALIVE = {
    *("cluster_node", "commit_rate", "console_session", "queue_rate", "worker_seen", "workflow_survey"),
    *("entity_count", "entity_count_change"),  # changes are merged into counts behind the commits
    *("event_subscription", "event_delivery"),  # what was committed before is delivered
}
"""Tables that a service writes to while nobody does anything."""


class Owned:
    """A running service as the program of one tenant's administrator."""

    def __init__(self, service: RunningService) -> None:
        self.root = service.root
        self._token = a_token(OWNER, "root", user_roles=ROLES)

    def api(self, token: str | None = None, *, context_path: str = "/api") -> Api:
        return Api(f"{self.root}{context_path}", token or self._token)


@pytest.fixture(scope="module")
def filled(launched: RunningService) -> Installation:
    """What there is of a tenant."""
    installation = Installation(Owned(launched), launched.database)  # type: ignore[arg-type]  # it has what is asked for
    fill(installation)
    fill_work(installation)
    return installation


@pytest.fixture(scope="module")
def reader(launched: RunningService) -> Visit:
    """A browser of somebody who has every role, and may only read."""
    return log_in(launched, OWNER, [*ROLES, "ROLE_READ_ONLY"])


@pytest.fixture(scope="module")
def stranger(launched: RunningService) -> Visit:
    """A browser of an administrator of another tenant."""
    return log_in(launched, f"other-{uuid4().hex[:12]}", ROLES)


def log_in(service: RunningService, tenant: str, roles: list[str]) -> Visit:
    visit = Visit(service)
    assert visit.log_in(token=a_token(tenant, "ann", user_roles=roles)).status_code == 303
    return visit


def iterate_pages(installation: Installation) -> Iterator[tuple[Page, str]]:
    """Every page, part and file with an address that exists for the owner."""
    for page in PAGES:
        own = page.path.replace("/console/part/", "/console/")
        values = installation.parameters | installation.own_parameters.get(own, {})
        values |= {"transaction": values["id"]} | ({} if "transactions" not in own else find_transaction(installation))
        if "{worker}" in page.path:
            show_worker(installation, values["worker"])
        path = re.sub(r"\{(\w+)\}", lambda found, values=values: quote(values[found[1]], safe=""), page.path)
        yield page, f"{path}?act=raw&raw={quote(EVERYTHING)}" if page.name == "entities_build" else path


def find_transaction(installation: Installation) -> dict[str, str]:
    meta = done(installation.api.get(f"/entity/{installation.orders[0]}"))["meta"]
    return {"id": meta["transactionId"]}


def list_acts(html: str) -> list[str]:
    """What on a page could change something: forms that are sent, and ways to confirmations."""
    forms = re.findall(r"<form[^>]*>", html)
    sent = [form for form in forms if 'method="post"' in form and 'action="/console/logout"' not in form]
    return (
        sent + re.findall(r"/console/(?:do|confirm)/\w+", html) + re.findall(r"formaction|hx-(?:post|put|delete)", html)
    )


def build_forms(installation: Installation) -> dict[str, dict[str, str]]:
    """A valid form for each action, about what the owner has."""
    root = installation.program.api(context_path="")
    order, own = installation.orders[0], installation.own_parameters
    seen = find_transaction(installation)["id"]
    model = {"name": "order", "version": "1"}
    entity = {"id": order, "seen": seen, "model": "order/1"}
    unlocked = {"name": "draft", "version": "1"}
    workflow = model | {"workflow": "fulfilment"}
    reason, resume = {"reason": "because"}, {"suspension": str(uuid4()), "timers": "FIRE", "reason": "because"}
    instance = {"instance": installation.instance, "language": "steps"}
    execution = {"instance": start(root, "playbook", "import-orders"), "language": "playbook"}
    flow = {"instance": start(root, "flow", "orders"), "language": "flow"}
    incident = {"incident": own["/console/incidents/{id}"]["id"]}
    job = {"job": own["/console/bulk/{id}"]["id"]}
    subscription = {"subscription": own["/console/subscriptions/{id}"]["id"]}
    group = {"group": own["/console/incidents/groups/{fingerprint}"]["fingerprint"]}
    client = {"id": done(installation.api.post("/clients"))["client_id"]}
    some = {"id": str(uuid4())}
    document = {"document": dumps({"workflows": [FULFILMENT], "importMode": "REPLACE"})}
    source = {"language": "steps", "source": dumps(ONBOARDING | {"id": "HR::other"})}
    queue = {"scope": "JOB_TYPE", "queue": "payment"}
    return {
        "create_client": {},
        "rotate_client_secret": client,
        "delete_client": client,
        "register_provider": {"uri": "http://127.0.0.1:9/.well-known/openid-configuration"},
        "invalidate_provider": some,
        "reactivate_provider": some,
        "delete_provider": some,
        "invalidate_trusted_key": some,
        "delete_trusted_key": some,
        "register_trusted_key": {"keyId": "k", "jwk": "{}"},
        "reactivate_trusted_key": some | {"validTo": "2031-12-31T00:00:00Z"},
        "reload_providers": {},
        "issue_key_pair": {},
        "invalidate_key_pair": some,
        "delete_key_pair": some,
        "prune_history": model | {"olderThan": "1d"},
        "set_log_level": {"level": "error"},
        "check_definition": {"language": "playbook", "source": PLAYBOOK},
        "upload_definition": source,
        "start_instance": {"language": "steps", "definition": "HR::onboarding", "version": "0"},
        "cancel_instance": instance | reason,
        "terminate_instance": flow,
        "restart_instance": execution,
        "evaluate_tokens": execution,
        "retry_step": instance | {"step": "ask"},
        "signal_instance": instance | {"step": "mail"},
        "change_node_input": flow | {"node": "1", "input": "{}"},
        "patch_context": execution | {"ctx": '{"approved": true}'},
        "inject_token": execution | {"step": "fetch"},
        "suspend_instance": instance | reason,
        "resume_instance": instance | resume,
        "create_entity": model | {"document": dumps(ORDER)},
        "fire": entity | {"transition": "CANCEL"},
        "loopback": entity,
        "save_entity": entity | {"document": dumps(ORDER)},
        "delete_entity": entity,
        "restore_version": entity | {"version": seen} | reason,
        "suspend_entity": entity | reason,
        "resume_entity": entity | resume,
        "import_sample": {},
        "delete_message": {"message": own["/console/messages/{id}"]["id"]},
        "create_message": {"subject": "s", "payload": "{}"},
        "delete_messages": {"message": own["/console/messages/{id}"]["id"]},
        "simulate_workflow": workflow | {"document": dumps(ORDER)},
        "check_import": model | document | {"mode": "REPLACE"},
        "import_workflows": model | document | {"mode": "REPLACE"},
        "create_bulk_job": {"operation": "DELETE", "model": "order/1", "selection": EVERYTHING},
        "start_bulk_job": job | {"expectedCount": "1"},
        "pause_bulk_job": job,
        "resume_bulk_job": job,
        "cancel_bulk_job": job,
        "retry_failed_bulk_job": job,
        "enable_subscription": subscription,
        "disable_subscription": subscription,
        "redeliver_event": subscription | {"delivery": str(uuid4())},
        "test_subscription": subscription,
        "rotate_subscription_secret": subscription | {"overlap": "PT24H"},
        "retry_incident_group": group,
        "resolve_incident_group": group | reason,
        "retry_incident": incident,
        "resolve_incident": incident | reason,
        "lock_model": unlocked,
        "unlock_model": {"name": "invoice", "version": "2"},
        "delete_model": unlocked,
        "set_change_level": unlocked | {"level": "TYPE"},
        "set_unique_keys": unlocked | {"keys": '{"uniqueKeys": []}'},
        "learn_sample": unlocked | {"sample": '{"more": 1}'},
        "validate_document": model | {"document": dumps(ORDER)},
        "declare_index": model | {"path": "$.amount"},
        "activate_revision": model | {"revision": "1", "ifMatch": "1"} | reason,
        "drop_index": model | {"index": str(uuid4())},
        "suspend_model": model | reason,
        "resume_model": model | resume,
        "suspend_workflow": workflow | reason,
        "resume_workflow": workflow | resume,
        "cancel_search": {"job": own["/console/searches/{id}"]["id"]},
        "complete_user_task": {"task": own["/console/tasks/{id}"]["id"], "variables": "{}"},
        "drain_worker": {"worker": "w-0", "within": "PT5M"},
        "suspend_queue": queue | reason,
        "run_search": model,
        "resume_queue": queue | resume,
    }


def start(root: Api, code: str, definition: str) -> str:
    """A new instance of a definition."""
    language = find_language(code)
    started = root.post(language.nouns.instances_path, language.start(definition, 0, {}, ""))
    assert started.is_success, started.text
    return str(started.json()["id"])


def send(visit: Visit, action: str, fields: dict[str, str]) -> Any:
    """The answer to the form of an action."""
    token = re.search(r'name="form_token" value="([^"]*)"', visit.get("/console/").text)
    assert token is not None
    hidden = {"form_token": token[1], "idempotency_key": uuid4().hex}
    return visit.client.post(f"/console/do/{action}", data=hidden | fields)


def read_database(service: RunningService) -> dict[str, str]:
    """A digest of each table that nobody writes to unless somebody does something."""

    async def read() -> dict[str, str]:
        async with connected(service.database) as connection:
            tables = await connection.fetch(
                "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
                " AND NOT relispartition"
            )
            return {
                row["relname"]: await connection.fetchval(
                    f"SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {row['relname']} t"
                )
                for row in tables
                if row["relname"] not in ALIVE
            }

    return asyncio.run(read())


def test_somebody_who_only_reads_sees_every_page_and_nothing_to_do(filled: Installation, reader: Visit):
    faults: dict[str, Any] = {}
    for page, path in iterate_pages(filled):
        answer = reader.get(path)
        found = list_acts(answer.text) if answer.headers.get("content-type", "").startswith("text/html") else []
        if answer.status_code not in {200, 303} or found:
            faults[path] = (answer.status_code, found)
        if not (page.is_part or page.is_file):
            assert "read only" in answer.text, path
    assert "\n".join(f"{path} {fault}" for path, fault in faults.items()) == ""


def test_whoever_may_act_sees_actions(filled: Installation, launched: RunningService):
    admin = log_in(launched, OWNER, ROLES)
    seen = {
        act
        for _, path in iterate_pages(filled)
        for act in re.findall(r"/console/(?:do|confirm)/(\w+)", admin.get(path).text)
    }
    assert len(seen) >= len(ACTIONS) / 2


def test_whoever_only_reads_is_refused_every_action_and_changes_nothing(
    filled: Installation, reader: Visit, launched: RunningService
):
    forms = build_forms(filled)
    assert forms.keys() == ACTIONS.keys()
    before = read_database(launched)
    sent = {name: send(reader, name, fields).status_code for name, fields in forms.items()}
    asked = {
        name: reader.get(f"/console/confirm/{name}?{urlencode(forms[name])}").status_code
        for name, action in ACTIONS.items()
        if action.confirm is not None
    }
    assert read_database(launched) == before
    assert {name: status for name, status in sent.items() if status != 403} == {}
    assert {name: status for name, status in asked.items() if status != 403} == {}


def test_the_api_refuses_what_the_console_does_not_show(filled: Installation, launched: RunningService):
    token = a_token(OWNER, "ann", user_roles=[*ROLES, "ROLE_READ_ONLY"])
    allowed = set()
    for name, fields in build_forms(filled).items():
        call = ACTIONS[name].build(Form(tuple(fields.items())))
        headers = {"content_type": call.media_type} if call.body is not None else {}
        answer = Api(launched.root, token).request(call.method, call.get_target("/api"), call.body or b"", **headers)
        if "READ_ONLY" not in answer.text:
            allowed.add(name)
    assert allowed == CHECKS


def test_nothing_of_another_tenant_is_there(filled: Installation, stranger: Visit):
    faults = {}
    for page, path in iterate_pages(filled):
        if "{" in page.path and page.name not in OF_NO_TENANT:
            status = stranger.get(path).status_code
            if status != 404:
                faults[page.path] = status
    assert "\n".join(f"{path} {fault}" for path, fault in faults.items()) == ""


def test_what_is_there_for_everybody_tells_nothing_of_another_tenant(filled: Installation, stranger: Visit):
    for page, path in iterate_pages(filled):
        if page.name in OF_NO_TENANT - {"entities_build", "transaction"} or "{" not in page.path:
            text = stranger.get(path).text
            assert not [secret for secret in (OWNER, *filled.orders) if secret in text], path


def test_nothing_of_another_tenant_is_acted_upon(filled: Installation, stranger: Visit):
    forms = build_forms(filled)
    assert send(stranger, "delete_messages", forms["delete_messages"]).status_code == 303
    assert filled.api.get(f"/message/{forms['delete_messages']['message']}").status_code == 200
    sent = {name: send(stranger, name, forms[name]).status_code for name in ACTIONS.keys() - OF_NOTHING}
    assert sorted(f"{name} {status}" for name, status in sent.items() if status != 404) == []


def test_the_navigation_has_what_a_role_may_see(launched: RunningService):
    homes = {
        role: log_in(launched, OWNER, [role]).get("/console/").text
        for role in ("ROLE_USER", "ROLE_OPERATOR", "ROLE_ADMIN")
    }
    seen = {role: set(re.findall(r'href="(/console/(?:admin|audit))"', home)) for role, home in homes.items()}
    assert seen == {
        "ROLE_USER": set(),
        "ROLE_OPERATOR": {"/console/audit"},
        "ROLE_ADMIN": {"/console/admin", "/console/audit"},
    }


def test_a_built_in_model_offers_nothing_that_nobody_may(filled: Installation, launched: RunningService):
    """It belongs to the service itself: its pages must not lead to what is refused to every role."""
    admin, root = log_in(launched, OWNER, ROLES), "/console/models/StepUserTask/1"
    pages = {path: admin.get(f"{root}{path}").text for path in ("", "/schema", "/indexes", "/settings", "/entities")}
    refused = re.compile(rf"{root}/(?:import|revisions|entities/new)|/(?:un)?lock_model|/set_change_level")
    assert {path: refused.findall(html) for path, html in pages.items()} == {path: [] for path in pages}
    own = "".join(admin.get(f"/console/models/order/1{path}").text for path in pages)
    assert set(re.findall(r"unlock_model|set_change_level|/order/1/(?:import|revisions|entities/new)", own)) == {
        *("unlock_model", "set_change_level"),
        *(f"/order/1/{page}" for page in ("import", "revisions", "entities/new")),
    }
