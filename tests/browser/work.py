"""What people and workers have to do in the filled installation: jobs, failed work, tasks, messages, searches."""

from tests.browser.installation import HOSTILE, Installation
from tests.builders import Json, a_processor, a_workflow, manual
from tests.service import Api, done, eventually

PARCEL = {"to": "Ada", "weight": 1.50}


def a_sending(tags: str) -> Json:
    """A workflow whose only transition asks a member with the tags."""
    send_it = manual("SEND", to="SENT", processors=[a_processor("book", tags=tags)])
    return a_workflow("sending", NEW=[send_it], SENT=[])


SENDING = a_sending("carrier")


def send(root: Api, path: str, body: Json) -> Json:
    """The answer of the step engine to a request that must succeed; None where it says nothing."""
    response = root.post(path, body)
    assert response.status_code < 300, response.text
    return response.json() if response.content else None


def a_job(job_type: str) -> Json:
    """A definition whose only step is a job."""
    step = {"id": "work", "name": "Work", "type": "SERVICE_TASK", "jobType": job_type, "nextStep": "end"}
    return {"id": f"do::{job_type}", "name": f"Do {job_type}", "steps": [step, END]}


END = {"id": "end", "name": "End", "type": "END"}
APPROVAL: Json = {
    "id": "HR::approval",
    "name": "Approval",
    "steps": [{"id": "approve", "name": "Approve", "type": "USER_TASK", "nextStep": "end"}, END],
}


def start(root: Api, definition: str, key: str = "", **variables: Json) -> str:
    """A started instance."""
    body = {"definitionId": definition, "variables": variables, **({"businessKey": key} if key else {})}
    return str(send(root, "/v1/instances", body)["id"])


def fail_job(root: Api, job_type: str, error: str) -> None:
    """Take the next job, and fail it for good."""
    wanted = {"workerId": "w-1", "jobTypes": [job_type], "waitSeconds": 10}
    [job] = send(root, "/v1/jobs/poll", wanted)["jobs"]
    send(root, f"/v1/jobs/{job['id']}/fail", {"workerId": "w-1", "errorMessage": error})


def show_worker(installation: Installation, worker: str) -> None:
    """A worker that polls is listed for a while; it polls again, and is listed."""
    root = installation.program.api(context_path="")
    send(root, "/v1/jobs/poll", {"workerId": worker, "jobTypes": ["charge"], "waitSeconds": 0})
    eventually(lambda: worker in {each["id"] for each in done(root.get("/ops/v1/members"))["items"]})


def list_open_incidents(root: Api, query: str = "") -> list[Json]:
    """The open incidents, the last one first."""
    items: list[Json] = done(root.get(f"/ops/v1/incidents{query}"))["items"]
    return items


def wait_for_incident(root: Api, query: str) -> Json:
    """The one open incident that a query finds, once there is one."""
    eventually(lambda: bool(list_open_incidents(root, query)))
    [incident] = list_open_incidents(root, query)
    return incident


ANYWHERE = {"type": "lifecycle", "field": "state"}


TOLD = {
    "name": HOSTILE,
    "target": {"url": "http://127.0.0.1:1031/hooks", "headers": {"X-Env": "test"}},
    "filters": [
        {
            "kinds": ["CREATED"],
            "modelName": "parcel",
            "modelVersion": 1,
            "bodyPredicate": {"type": "simple", "jsonPath": "$.weight", "operatorType": "GREATER_THAN", "value": 0},
        },
        {"kinds": ["DELETED"], "modelName": HOSTILE},
    ],
}
"""A subscription whose target does not answer."""


def fill_work(installation: Installation) -> None:
    """A queue without a worker, an instance that failed with a hostile text, a run that failed, and tasks."""
    api, root = installation.api, installation.program.api(context_path="")
    for definition in (a_job("payment"), a_job("charge"), APPROVAL):
        send(root, "/v1/definitions", definition)
    start(root, "do::payment", HOSTILE)
    start(root, "do::charge")
    fail_job(root, "charge", HOSTILE)
    for n in range(3):
        start(root, "HR::approval", f"E-{n}", name="Ada", text=HOSTILE)
    api.a_model(SENDING, model="parcel/1", sample=PARCEL)
    subscription = send(root, "/ops/v1/subscriptions", TOLD)["id"]
    parcel = api.create(PARCEL, model="parcel/1")
    api.put(f"/entity/JSON/{parcel.id}/SEND", PARCEL | {"weight": 2.50})
    eventually(lambda: len(list_open_incidents(root)) > 1)
    [failed] = list_open_incidents(root, "?kind=RUN_FAILED")
    stored = done(
        api.post(
            "/message/new/orders", {"payload": {"text": HOSTILE}, "meta-data": {}}, content_type="application/json"
        )
    )
    message = stored[0]["entityIds"][0]
    tasks = done(root.get("/v1/user-tasks"))["items"]
    send(root, "/v1/definitions", a_job("archive"))
    start(root, "do::archive")
    holding = {"workerId": "w-0", "jobTypes": ["archive"], "waitSeconds": 10, "leaseSeconds": 3600}
    assert send(root, "/v1/jobs/poll", holding)["jobs"]  # who holds a job is listed, also when it polls no more
    search = api.post("/search/async/parcel/1", {"type": "group", "operator": "AND", "conditions": []}).json()
    eventually(lambda: done(api.get(f"/search/async/{search}/status"))["searchJobStatus"] == "SUCCESSFUL")
    chosen = {"model": {"name": "parcel", "version": 1}, "condition": {**ANYWHERE, "operatorType": "NOT_NULL"}}
    order = {
        "operation": "TRANSITION",
        "arguments": {"transition": "SEND"},
        "dryRun": True,
        "reason": HOSTILE,
        **chosen,
    }
    bulk = send(root, "/ops/v1/bulk-jobs", order)["id"]
    eventually(lambda: done(root.get(f"/ops/v1/bulk-jobs/{bulk}"))["status"] == "READY")
    deliveries = f"/ops/v1/subscriptions/{subscription}/deliveries?status=RETRYING"
    eventually(lambda: done(root.get(deliveries))["items"])
    installation.own_parameters |= {
        "/console/bulk/{id}": {"id": bulk},
        "/console/subscriptions/{id}": {"id": subscription},
        "/console/searches/{id}": {"id": search},
        "/console/help/{topic}": {"topic": "workflows"},
        "/console/messages/{id}": {"id": message},
        "/console/tasks/{id}": {"id": tasks[0]["id"]},
        "/console/incidents/{id}": {"id": failed["id"]},
        "/console/incidents/groups/{fingerprint}": {"fingerprint": failed["fingerprint"]},
        "/console/workers/{worker}": {"worker": "w-0"},
        "/console/queues/{kind}/{queue}": {"kind": "JOB_TYPE", "queue": "payment"},
    }
