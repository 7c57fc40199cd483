"""Every method of ``workflow.v1``, and every status it ends with (docs/reference/steps.md#grpc)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

from statewright.proto.workflow.v1 import engine_pb2 as pb
from tests.builders import Json
from tests.database import connected
from tests.integration.steps_grpc.engine import Engine, refused
from tests.service import Api, RunningService, a_token, eventually

ULID = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"
WAITS = (("wait-seconds", "15"),)


def step(id_: str, type_: int, then: str = "", **members: Any) -> pb.WorkflowStep:
    return pb.WorkflowStep(id=id_, name=id_, type=type_, next_step=then, **members)


def definition(id_: str, *steps: pb.WorkflowStep, **members: Any) -> pb.WorkflowDefinition:
    end = step("end", pb.STEP_TYPE_END)
    return pb.WorkflowDefinition(id=id_, name=f"The {id_}", steps=[*steps, end], **members)


WORK = definition("work", step("do", pb.STEP_TYPE_SERVICE_TASK, "end", job_type="do", retry_count=1))
ASK = definition("ask", step("review", pb.STEP_TYPE_USER_TASK, "end"))
PAUSE = definition("pause", step("paid", pb.STEP_TYPE_WAIT, "end"))
DECIDE = definition("decide", step("route", pb.STEP_TYPE_DECISION, conditional_next_steps={"score > 1": "end"}))


def struct(**members: Json) -> Struct:
    filled = Struct()
    filled.update(members)
    return filled


def uploaded(engine: Engine, *definitions: pb.WorkflowDefinition) -> None:
    for one in definitions:
        engine("UploadDefinition", definition=one)


def started(engine: Engine, id_: str, **members: Any) -> Any:
    return engine("StartInstance", definition_id=id_, **members).instance


def instance_of(engine: Engine, id_: str) -> Any:
    return engine("GetInstance", id=id_).instance


def test_a_definition_is_uploaded_read_and_listed(engine: Engine) -> None:
    answer = engine("UploadDefinition", definition=WORK)
    assert (answer.id, answer.version) == ("work", 1)
    assert answer.uploaded_at.seconds > 1_700_000_000
    assert engine("UploadDefinition", definition=WORK).version == 1
    second = pb.WorkflowDefinition.FromString(WORK.SerializeToString())
    second.metadata.CopyFrom(struct(tags=["a"], n=3))
    assert engine("UploadDefinition", definition=second).version == 2
    latest = engine("GetDefinition", id="work").definition
    assert latest.version == 2
    second.version = 2
    assert latest == second
    assert engine("GetDefinition", id="work", version=1).definition.version == 1
    listed = engine("ListDefinitions", keyword="WOR", page_size=5)
    assert [(one.id, one.version, one.name) for one in listed.definitions] == [("work", 2, "The work")]
    assert listed.total == 1
    assert engine("ListDefinitions", keyword="none").total == 0


def test_a_definition_that_breaks_rules_is_told_all_of_them(engine: Engine) -> None:
    wrong = definition("my flow", step("score", pb.STEP_TYPE_SERVICE_TASK, "end"), step("odd", 42, "end"))
    message = refused(engine, "INVALID_ARGUMENT", "UploadDefinition", definition=wrong)
    assert message.startswith('validation errors:\n  id "my flow" must match')
    assert 'step "score" (SERVICE_TASK): jobType is required' in message
    assert 'step "odd": unsupported type "42"' in message


def test_an_unknown_definition_is_not_found(engine: Engine) -> None:
    assert refused(engine, "NOT_FOUND", "GetDefinition", id="none") == "definition not found"
    assert refused(engine, "NOT_FOUND", "GetDefinition", id="none", version=7) == "definition not found"
    message = refused(engine, "NOT_FOUND", "StartInstance", definition_id="none")
    assert message == 'start: load definition "none": definition not found'


def test_an_instance_is_started_read_listed_and_cancelled(engine: Engine) -> None:
    uploaded(engine, WORK)
    instance = started(engine, "work", variables=struct(n=5, list=[1, None]), business_key="K")
    assert (instance.definition_id, instance.definition_version) == ("work", 1)
    assert (instance.status, list(instance.current_step_ids)) == (pb.INSTANCE_STATUS_ACTIVE, ["do"])
    assert instance.variables == struct(n=5, list=[1, None])
    assert (instance.business_key, instance.failure_reason) == ("K", "")
    assert not instance.HasField("completed_at")
    assert instance_of(engine, instance.id) == instance
    other = started(engine, "work")
    found = engine("ListInstances", definition_id="work", status=pb.INSTANCE_STATUS_ACTIVE)
    assert ([one.id for one in found.instances], found.total) == ([other.id, instance.id], 2)
    assert [one.id for one in engine("ListInstances", business_key="K").instances] == [instance.id]
    assert engine("ListInstances", status=pb.INSTANCE_STATUS_FAILED).total == 0
    assert engine("ListInstances", status=99).total == 0
    assert [one.id for one in engine("ListInstances", page=1, page_size=1).instances] == [instance.id]
    cancelled = engine("CancelInstance", id=instance.id, reason="enough").instance
    assert (cancelled.status, cancelled.failure_reason) == (pb.INSTANCE_STATUS_CANCELLED, "enough")
    assert cancelled.HasField("completed_at")
    message = refused(engine, "FAILED_PRECONDITION", "CancelInstance", id=instance.id)
    assert message == "instance is in a terminal state"


def test_a_business_key_in_use_exists_already(engine: Engine) -> None:
    uploaded(engine, WORK)
    started(engine, "work", business_key="K")
    message = refused(engine, "ALREADY_EXISTS", "StartInstance", definition_id="work", business_key="K")
    assert message == "business key already in use by an in-flight instance of this definition"


@pytest.mark.parametrize("method", ["GetInstance", "GetInstanceHistory", "CancelInstance"])
@pytest.mark.parametrize("id_", [ULID, ""])
def test_an_unknown_instance_is_not_found(engine: Engine, method: str, id_: str) -> None:
    assert refused(engine, "NOT_FOUND", method, id=id_) == f'instance "{id_}" not found'


def test_a_job_is_polled_with_its_variables_and_completed_with_more(engine: Engine) -> None:
    uploaded(engine, WORK)
    instance = started(engine, "work", variables=struct(n=5)).id
    [job] = engine("PollJobs", worker_id="w", job_types=["do"], max_jobs=10, lease_seconds=0).jobs
    assert (job.instance_id, job.job_type, job.step_id, job.retries_remaining) == (instance, "do", "do", 1)
    assert job.variables == struct(n=5)
    assert job.HasField("lock_expires_at")
    engine("CompleteJob", job_id=job.id, worker_id="w", variables_to_set=struct(done=True))
    after = instance_of(engine, instance)
    assert (after.status, after.variables) == (pb.INSTANCE_STATUS_COMPLETED, struct(n=5, done=True))
    engine("CompleteJob", job_id=job.id)
    engine("FailJob", job_id=job.id, retryable=True, error_message="late")
    first, last = engine("GetInstanceHistory", id=instance).executions
    assert (first.id, first.step_id, first.step_type) == (job.step_execution_id, "do", pb.STEP_TYPE_SERVICE_TASK)
    assert (first.status, first.attempt_number) == (pb.STEP_EXECUTION_STATUS_COMPLETED, 1)
    assert (first.step_name, first.definition_id, first.definition_name) == ("do", "work", "The work")
    assert (last.step_id, last.step_type, last.HasField("ended_at")) == ("end", pb.STEP_TYPE_END, True)


def test_a_worker_lengthens_its_lease_until_it_has_lost_it(engine: Engine) -> None:
    uploaded(engine, WORK)
    started(engine, "work")
    [job] = engine("PollJobs", worker_id="w", job_types=["do"], lease_seconds=5).jobs
    longer = engine("ExtendJobLease", job_id=job.id, worker_id="w", lease_seconds=60)
    assert longer.accepted
    assert longer.lock_expires_at.ToDatetime() > job.lock_expires_at.ToDatetime()
    assert engine("ExtendJobLease", job_id=job.id, worker_id="w").accepted
    lost = refused(engine, "FAILED_PRECONDITION", "ExtendJobLease", job_id=job.id, worker_id="another")
    assert "is not locked by worker" in lost
    assert "not found" in refused(engine, "NOT_FOUND", "ExtendJobLease", job_id="nope", worker_id="w")


def test_a_page_that_no_message_should_hold_is_refused_with_what_to_ask_for(engine: Engine) -> None:
    uploaded(engine, WORK)
    large = struct(text="x" * 2_000_000)
    ids = [started(engine, "work", variables=large).id for _ in range(9)]
    text = refused(engine, "RESOURCE_EXHAUSTED", "ListInstances", definition_id="work", page_size=50)
    assert text == "the page has more than 16777216 bytes; page_size was 50, ask for fewer"
    page = engine("ListInstances", definition_id="work", page_size=1, page=8)
    assert ([one.id for one in page.instances], page.total) == ([ids[0]], 9)
    assert page.instances[0].variables == large


def test_a_poll_takes_one_job_unless_it_says_otherwise(engine: Engine) -> None:
    uploaded(engine, WORK)
    made = [started(engine, "work").id for _ in range(3)]
    [job] = engine("PollJobs", worker_id="w", job_types=["do"]).jobs
    assert job.instance_id == made[0]
    more = engine("PollJobs", worker_id="", job_types=["do"], max_jobs=5).jobs
    assert [job.instance_id for job in more] == made[1:]


def test_a_job_fails_when_its_retries_are_used_up(engine: Engine) -> None:
    uploaded(engine, WORK)
    instance = started(engine, "work").id
    for retries in (1, 0):
        [job] = engine("PollJobs", worker_id="w", job_types=["do"]).jobs
        assert job.retries_remaining == retries
        engine("FailJob", job_id=job.id, worker_id="w", retryable=True, error_message="no voice")
    failed = instance_of(engine, instance)
    assert (failed.status, failed.failure_reason) == (pb.INSTANCE_STATUS_FAILED, "no voice")
    retried = engine("RetryStep", instance_id=instance, step_id="do", variables=struct(again=1)).instance
    assert (retried.status, retried.variables) == (pb.INSTANCE_STATUS_ACTIVE, struct(again=1))


def test_a_job_rests_for_as_long_as_its_worker_says(engine: Engine) -> None:
    uploaded(engine, WORK)
    started(engine, "work")
    [job] = engine("PollJobs", worker_id="w", job_types=["do"]).jobs
    failure = {"job_id": job.id, "worker_id": "w", "retryable": True, "error_message": "closed"}
    text = refused(engine, "INVALID_ARGUMENT", "FailJob", **failure, retry_after_seconds=3601)
    assert "retry_after_seconds must be from 0 to 3600" in text
    engine("FailJob", **failure, retry_after_seconds=3600)
    assert not engine("PollJobs", worker_id="w", job_types=["do"]).jobs


def test_a_rest_of_no_time_is_none(engine: Engine) -> None:
    """It counts in place of the backoff of the definition, which is an hour."""
    backoff = struct(retryBackoff={"*": {"delay": "PT1H", "maxDelay": "PT1H"}})
    uploaded(engine, pb.WorkflowDefinition(id="rests", name="rests", steps=WORK.steps, metadata=backoff))
    started(engine, "rests")
    [job] = engine("PollJobs", worker_id="w", job_types=["do"]).jobs
    engine("FailJob", job_id=job.id, worker_id="w", retryable=True, retry_after_seconds=0)
    [again] = engine("PollJobs", worker_id="w", job_types=["do"]).jobs
    assert again.id == job.id


@pytest.mark.parametrize("method", ["CompleteJob", "FailJob"])
def test_an_unknown_job_is_not_found(engine: Engine, method: str) -> None:
    assert refused(engine, "NOT_FOUND", method, job_id=ULID) == f'job "{ULID}" not found'


def test_a_user_task_is_completed_once(engine: Engine) -> None:
    uploaded(engine, ASK)
    instance = started(engine, "ask").id
    named = {"instance_id": instance, "user_task_step_id": "review"}
    engine("CompleteUserTask", **named, completed_by="ada", result=struct(decision="yes"))
    assert instance_of(engine, instance).variables == struct(decision="yes")
    assert refused(engine, "FAILED_PRECONDITION", "CompleteUserTask", **named) == "instance is in a terminal state"


def test_a_wait_is_resumed_by_a_signal(engine: Engine) -> None:
    uploaded(engine, PAUSE)
    instance = started(engine, "pause")
    assert instance.status == pb.INSTANCE_STATUS_WAITING
    engine("SignalWait", instance_id=instance.id, wait_step_id="paid", variables=struct(paid=True))
    after = instance_of(engine, instance.id)
    assert (after.status, after.variables) == (pb.INSTANCE_STATUS_COMPLETED, struct(paid=True))


@pytest.mark.parametrize(
    ("method", "step_id", "is_known", "code", "message"),
    [
        ("CompleteUserTask", "review", False, "NOT_FOUND", "workflow instance not found"),
        ("SignalWait", "paid", False, "NOT_FOUND", "workflow instance not found"),
        ("RetryStep", "route", False, "NOT_FOUND", "workflow instance not found"),
        ("CompleteUserTask", "nowhere", True, "NOT_FOUND", "user task not found"),
        ("SignalWait", "nowhere", True, "FAILED_PRECONDITION", "wait step is not currently parked on the instance"),
        ("CompleteUserTask", "do", True, "INVALID_ARGUMENT", "step type does not match the endpoint"),
        ("SignalWait", "do", True, "INVALID_ARGUMENT", "step type does not match the endpoint"),
        ("RetryStep", "nowhere", True, "NOT_FOUND", 'step "nowhere" not found in definition'),
        ("RetryStep", "do", True, "FAILED_PRECONDITION", "instance is not in FAILED state"),
    ],
)
def test_what_cannot_be_done_says_why(
    engine: Engine, method: str, step_id: str, is_known: bool, code: str, message: str
) -> None:
    uploaded(engine, WORK)
    instance = started(engine, "work").id if is_known else ULID
    member = {"CompleteUserTask": "user_task_step_id", "SignalWait": "wait_step_id", "RetryStep": "step_id"}[method]
    assert refused(engine, code, method, instance_id=instance, **{member: step_id}) == message


def test_a_failure_of_the_definition_is_the_instances_and_not_the_calls(engine: Engine) -> None:
    uploaded(engine, DECIDE)
    instance = started(engine, "decide")
    assert instance.status == pb.INSTANCE_STATUS_FAILED
    assert 'undefined variable "score"' in instance.failure_reason


def test_numbers_that_json_does_not_have_are_refused(engine: Engine) -> None:
    uploaded(engine, WORK)
    message = refused(
        engine, "INVALID_ARGUMENT", "StartInstance", definition_id="work", variables=struct(n=float("nan"))
    )
    assert message == "nan is no JSON number"


def test_both_doors_lead_to_the_same_engine(service: RunningService, engine: Engine, tenant: str) -> None:
    uploaded(engine, WORK)
    rest = Api(service.root, a_token(tenant))
    instance = rest.post("/v1/instances", {"definitionId": "work", "variables": {"n": 1}}).json()["id"]
    [job] = engine("PollJobs", worker_id="w", job_types=["do"]).jobs
    assert job.instance_id == instance
    assert rest.post(f"/v1/jobs/{job.id}/complete", {"variables": {"m": 2}}).status_code == 204
    assert instance_of(engine, instance).variables == struct(n=1, m=2)


def test_two_workers_that_race_for_a_job_get_it_once(engine: Engine) -> None:
    uploaded(engine, WORK)
    started(engine, "work")
    together = Barrier(2)

    def poll(number: int) -> int:
        together.wait()
        return len(engine("PollJobs", worker_id=f"w-{number}", job_types=["do"]).jobs)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(poll, range(2))) == [0, 1]


@pytest.mark.parametrize("within", [20.0, None])
def test_a_poll_that_waits_is_answered_when_a_job_comes(
    service: RunningService, engine: Engine, within: float | None
) -> None:
    uploaded(engine, WORK)
    waiting = engine.future("PollJobs", worker_id="w", job_types=["do"], metadata=WAITS, within=within)
    eventually(lambda: waiters(service) == 1)
    instance = started(engine, "work").id
    assert [job.instance_id for job in waiting.result(30).jobs] == [instance]


def test_a_poll_answers_before_its_deadline_however_long_it_may_wait(engine: Engine) -> None:
    answer = engine("PollJobs", worker_id="w", job_types=["never"], metadata=WAITS, within=2.0)
    assert list(answer.jobs) == []


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "99999999999"])
def test_a_wait_that_is_no_number_of_seconds_is_none(engine: Engine, text: str) -> None:
    answer = engine("PollJobs", worker_id="w", job_types=["never"], metadata=(("wait-seconds", text),))
    assert list(answer.jobs) == []


def test_a_poll_that_is_cancelled_takes_no_job_with_it(service: RunningService, engine: Engine) -> None:
    uploaded(engine, WORK)
    waiting = engine.future("PollJobs", worker_id="gone", job_types=["do"], metadata=WAITS)
    eventually(lambda: waiters(service) == 1)
    waiting.cancel()
    eventually(lambda: waiters(service) == 0)
    instance = started(engine, "work").id
    # A claim that had begun may still take the job, and gives it back: whoever waits for it has it then.
    [job] = engine("PollJobs", worker_id="w", job_types=["do"], metadata=WAITS).jobs
    assert job.instance_id == instance


async def test_a_call_that_its_client_gives_up_ends_with_its_deadline(service: RunningService, engine: Engine) -> None:
    async with connected(service.database) as holder, holder.transaction():
        await holder.execute("LOCK TABLE process_instance IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(grpc.RpcError) as caught:
            await asyncio.to_thread(engine, "ListInstances", within=0.5)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def waiters(service: RunningService) -> int:
    """How many polls wait in the shared service; tests of one process run one after the other."""
    waiting = service.parts.runtime.processes.hosts.wakeups._waiting
    return len({event for events in waiting.values() for event in events})
