"""A worker of generated playbooks and flows, as a process of its own: ``python -m tests.e2e.net_worker URL SEED``.

It writes a line before and after whatever it tells the service, so that who kills it can choose between which. Two of
ten results it sends twice. Of a run of a playbook the result, and the message of the error, is the id of the job.
"""

import os
import random
import ssl
import sys
import time
from contextlib import suppress

import httpx

from tests.builders import Json
from tests.unit.flows.oracle import answer
from tests.unit.playbooks.generated import FLAGS

FLOW_TASK, PLAYBOOK_TASK = "T", "playbook:compute"
REPORTED = (7, 8)
"""What runs of playbooks set members of ``ctx`` to; nothing else does."""
LEASE_S = 5
PAUSE_S = 0.1
"""Before a service that is not there is asked again."""


class NetWorker:
    def __init__(self, url: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._http = httpx.Client(
            base_url=url, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False, timeout=30
        )
        self._name = f"w-{os.getpid()}"

    def run(self) -> None:
        """Until it is killed."""
        while True:
            try:
                for job in self._claim():
                    self._do(job)
            except httpx.TransportError:
                time.sleep(PAUSE_S)

    def _claim(self) -> list[Json]:
        poll = {"jobTypes": [FLOW_TASK, PLAYBOOK_TASK], "maxJobs": 4, "leaseSeconds": LEASE_S, "waitSeconds": 5}
        claimed = self._tell("poll", poll, 200)
        jobs: list[Json] = claimed.json()["jobs"]
        return jobs

    def _do(self, job: Json) -> None:
        if job["jobType"] == FLOW_TASK:
            self._do_flow_task(job)
        else:
            self._do_pipeline(job)

    def _do_flow_task(self, job: Json) -> None:
        if self._chance.random() < 0.06:
            body = {"errorMessage": "boom", "retryable": self._chance.random() < 0.7}
            self._tell(f"{job['id']}/fail", body, 204)
            return
        given = job["variables"]
        self._complete(job, answer(given["node"], given["input"]))

    def _do_pipeline(self, job: Json) -> None:
        patches: list[Json] = []
        if self._chance.random() < 0.4:
            patches = [{"path": [self._chance.choice(FLAGS)], "value": self._chance.choice(REPORTED), "at": 0}]
            self._tell(f"{job['id']}/progress", {"progress": {"patches": patches}}, 200, 409)  # its lease may be over
        if (pause := self._plan_pause(job["variables"])) is not None:
            self._complete(
                job, {"status": "paused", "pause": pause, "patches": patches}, 204, 404
            )  # it may go on already
        elif self._chance.random() < 0.08:
            self._complete(
                job, {"status": "error", "error": {"kind": "boom", "message": job["id"]}, "patches": patches}
            )
        else:
            self._complete(job, {"status": "ok", "result": job["id"], "patches": patches})

    def _plan_pause(self, run: Json) -> Json:
        """Where the run is to go on, if it has a task that it can pause for."""
        places = {
            task["kind"]: place for place, task in enumerate(run["tasks"]) if task["kind"] in ("playbook", "wait")
        }
        if not places or "resume" in run or self._chance.random() < 0.2:
            return None
        [(kind, counter)] = places.items()
        fields = {"seconds": 0.5} if kind == "wait" else {"path": "other", "args": {"x": 1}}
        return {"fields": fields, "state": {"counter": counter}}

    def _complete(self, job: Json, result: Json, *statuses: int) -> None:
        for _ in range(2 if self._chance.random() < 0.2 else 1):
            self._tell(f"{job['id']}/complete", {"variables": result}, *(statuses or (204,)))

    def _tell(self, path: str, body: Json, *statuses: int) -> httpx.Response:
        self._say(path)
        response = self._http.post(f"/v1/jobs/{path}", json={"workerId": self._name, **body})
        self._say(f"{path} {response.status_code}")
        assert response.status_code in statuses, response.text
        return response

    def _say(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        NetWorker(sys.argv[1], int(sys.argv[2])).run()
