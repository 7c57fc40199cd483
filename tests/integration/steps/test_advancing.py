"""Instances from start to end over the database: every step type, as the doors see it."""

import json
import random
from datetime import timedelta

import pytest

from statewright.failures import BadRequest, BusinessKeyInUse, ProcessBadRequest, ProcessConflict, ProcessNotFound
from statewright.jsonval.codec import decode
from statewright.services.core import Caller
from statewright.services.processes import dialects, tasks
from statewright.services.steps.dialect import STEP_DIALECT
from statewright.steps.documents import definition_to_document
from tests.builders import Json
from tests.integration.steps.conftest import THREE_STEPS, Host, definition, end, read_page, service_task, step


async def test_a_chain_of_three_service_tasks_completes_and_leaves_its_history(host: Host):
    await host.upload(THREE_STEPS)
    instance = await host.start("chain", name="Ada")
    assert (instance.status, instance.current_step_ids) == ("ACTIVE", ("a",))

    await host.do("a", one=1)
    await host.do("b", two={"x": 1})
    job = await host.job("c")
    assert job.variables == {"name": "Ada", "one": 1, "two": {"x": 1}}
    await host.complete(job, two={"y": 2})

    done = await host.read(instance)
    assert (done.status, done.current_step_ids) == ("COMPLETED", ())
    assert done.variables == {"name": "Ada", "one": 1, "two": {"x": 1, "y": 2}}
    assert await host.trace(instance) == ["a COMPLETED", "b COMPLETED", "c COMPLETED", "end COMPLETED"]
    assert await host.count("SELECT count(*) FROM process_job") == 0


async def test_history_shows_what_went_in_and_what_came_out(host: Host):
    await host.upload(definition("d", service_task("a", "end"), end()))
    instance = await host.start("d", name="Ada")
    await host.do("a", greeting="hello")
    first, last = await host.history(instance)
    assert (first.input_snapshot, first.output_snapshot) == ({"name": "Ada"}, {"greeting": "hello"})
    assert (first.instance_id, first.node_type, first.attempt_number) == (instance.id, "SERVICE_TASK", 1)
    assert last.input_snapshot == {"name": "Ada", "greeting": "hello"}
    assert last.ended_at == last.started_at


async def test_every_synchronous_step_runs_before_the_start_is_answered(host: Host):
    table = {"rules": [{"when": {"score": "score > 5"}, "outputs": {"tier": "GOLD"}}, {"outputs": {"tier": "BASIC"}}]}
    await host.upload(
        definition(
            "d",
            step("sum", "TRANSFORMATION", "tier", transformations={"score": "${a + b}"}),
            step("tier", "DECISION_TABLE", "route", hitPolicy="F", decisionTable=table),
            step("route", "DECISION", conditionalNextSteps={"tier == 'GOLD'": "gold", "tier == 'BASIC'": "basic"}),
            end("gold"),
            end("basic"),
        )
    )
    gold, basic = await host.start("d", a=3, b=4), await host.start("d", a=1, b=1)
    assert (gold.status, gold.variables["tier"]) == ("COMPLETED", "GOLD")
    assert (await host.trace(basic))[-1] == "basic COMPLETED"
    assert await host.read(gold) == gold, "what is stored is what was answered"


async def test_an_instance_that_fails_at_once_is_stored_with_its_reason(host: Host):
    await host.upload(definition("d", step("route", "DECISION", conditionalNextSteps={"missing > 1": "end"}), end()))
    failed = await host.start("d")
    assert failed.status == "FAILED"
    assert (await host.read(failed)).failure_reason == failed.failure_reason
    assert failed.failure_reason is not None
    assert 'undefined variable "missing"' in failed.failure_reason


async def test_a_fork_joins_when_both_branches_have_come_however_long_they_are(host: Host):
    await host.upload(
        definition(
            "d",
            step("fork", "PARALLEL_GATEWAY", parallelNextSteps=["left", "right"], joinStep="join"),
            service_task("left", "left2"),
            service_task("left2", "join"),
            service_task("right", "join"),
            step("join", "JOIN_GATEWAY", "last"),
            service_task("last", "end"),
            end(),
        )
    )
    instance = await host.start("d")
    await host.do("left", l=1)
    await host.do("right", r=1)
    assert (await host.read(instance)).current_step_ids == ("left2", "join")
    await host.do("left2", l2=1)
    await host.do("last")
    done = await host.read(instance)
    assert (done.status, done.variables) == ("COMPLETED", {"l": 1, "r": 1, "l2": 1})


async def test_a_wait_is_resumed_by_its_signal_once(host: Host):
    await host.upload(definition("d", step("hold", "WAIT", "end"), end()))
    instance = await host.start("d")
    assert instance.status == "WAITING"
    await host.signal(instance, "hold", answer=42)
    assert (await host.read(instance)).variables == {"answer": 42}
    with pytest.raises(ProcessConflict, match="terminal state"):
        await host.signal(instance, "hold")


@pytest.mark.parametrize(
    ("step_id", "failure", "reason"),
    [
        ("nowhere", ProcessConflict, "wait step is not currently parked on the instance"),
        ("work", ProcessBadRequest, "step type does not match the endpoint"),
        ("later", ProcessConflict, "wait step is not currently parked on the instance"),
    ],
)
async def test_a_signal_that_finds_nobody_is_refused(host: Host, step_id: str, failure: type, reason: str):
    await host.upload(definition("d", service_task("work", "later"), step("later", "WAIT", "end"), end()))
    instance = await host.start("d")
    with pytest.raises(failure, match=reason):
        await host.signal(instance, step_id)


async def test_nobody_signals_an_instance_that_is_unknown(host: Host):
    for name in ("01JABC3V9E6K8M2Q4S6T8W0Y2Z", "nonsense"):
        with pytest.raises(ProcessNotFound, match=r"^workflow instance not found$"):
            await host.signal(name, "hold")
        with pytest.raises(ProcessNotFound, match=rf'^instance "{name}" not found$'):
            await host.read(name)
        with pytest.raises(ProcessNotFound, match=rf'^instance "{name}" not found$'):
            await host.history(name)


async def test_cancelling_withdraws_everything_and_is_final(host: Host):
    await host.upload(
        definition(
            "d",
            step("fork", "PARALLEL_GATEWAY", parallelNextSteps=["work", "review"], joinStep="join"),
            service_task("work", "join"),
            step("review", "USER_TASK", "join"),
            step("join", "JOIN_GATEWAY", "end"),
            end(),
        )
    )
    instance = await host.start("d")
    job = await host.job("work")
    cancelled = await host.cancel(instance, "changed my mind")
    assert (cancelled.status, cancelled.failure_reason) == ("CANCELLED", "changed my mind")
    await host.complete(job, late=True)  # accepted, without effect
    after = await host.read(instance)
    assert (after.status, after.variables) == ("CANCELLED", {})
    assert await host.trace(instance) == ["fork COMPLETED", "work SKIPPED", "review SKIPPED"]
    for table in ("process_job", "process_task"):
        assert await host.count(f"SELECT count(*) FROM {table}") == 0
    with pytest.raises(ProcessConflict, match="terminal state"):
        await host.cancel(instance)


async def test_a_user_task_is_in_the_inbox_until_it_is_done(host: Host):
    await host.upload(definition("d", step("review", "USER_TASK", "end", jobType="review-form"), end()))
    instance = await host.start("d", "K-1", amount=5)
    [task] = await host.inbox()
    assert task | {"createdAt": "", "stepExecutionId": "", "id": ""} == {
        "id": "",
        "language": "steps",
        "instanceId": instance.id,
        "stepId": "review",
        "stepExecutionId": "",
        "definitionId": "d",
        "definitionVersion": 1,
        "status": "OPEN",
        "payload": {"amount": 5},
        "createdAt": "",
        "jobType": "review-form",
        "businessKey": "K-1",
    }
    await host.approve(instance, "review", by="carol", approved=True)
    assert (await host.stream_inbox()).total == 0
    assert (await host.read(instance)).variables == {"amount": 5, "approved": True}
    with pytest.raises(ProcessConflict, match="terminal state"):
        await host.approve(instance, "review")


async def test_a_user_task_can_be_done_by_its_own_id_once(host: Host):
    await host.upload(definition("d", step("review", "USER_TASK", "hold"), step("hold", "WAIT", "end"), end()))
    instance = await host.start("d")
    [task] = await host.inbox()
    await tasks.complete_task(host.runtime.processes, host.caller, str(task["id"]), {"ok": True})
    assert (await host.read(instance)).current_step_ids == ("hold",)
    for name in (str(task["id"]), "01JABC3V9E6K8M2Q4S6T8W0Y2Z", "nonsense"):
        with pytest.raises(ProcessNotFound, match=r"^user task not found$"):
            await tasks.complete_task(host.runtime.processes, host.caller, name)


async def test_the_inbox_is_filtered_by_type_definition_and_age(host: Host):
    for name, kind in (("d1", "x"), ("d2", "y")):
        await host.upload(definition(name, step("review", "USER_TASK", "end", jobType=kind), end()))
        await host.start(name)

    async def found(**filters: Json | timedelta) -> list[str]:
        return [str(task["definitionId"]) for task in await host.inbox(**filters)]

    assert await found() == ["d1", "d2"]
    assert await found(job_type="y") == ["d2"]
    assert await found(definition_id="d1") == ["d1"]
    assert await found(page_size=1, page=1) == ["d2"]
    assert await found(older_than=timedelta(hours=1)) == []
    host.clock.advance(timedelta(hours=2))
    assert await found(older_than=timedelta(hours=1)) == ["d1", "d2"]


async def test_an_inbox_of_large_tasks_is_read_a_few_megabytes_at_a_time(host: Host):
    await host.upload(definition("d", step("review", "USER_TASK", "end"), end()))
    begun = [await host.start("d", text=random.Random(n).randbytes(900_000).hex()) for n in range(5)]
    page = await host.stream_inbox()
    assert (page.is_small, page.total) == (False, 5)
    first = await anext(page.portions)
    await host.approve(begun[3], "review")  # meanwhile
    later = [portion async for portion in page.portions]
    assert [[task["instanceId"] for task in portion] for portion in (first, *later)] == [
        [begun[0].id, begun[1].id],
        [begun[2].id, begun[4].id],
    ]
    assert first[1]["payload"] == begun[1].variables
    assert [task["instanceId"] for task in await host.inbox(page=1, page_size=2)] == [begun[2].id, begun[4].id]


async def test_a_definition_keeps_the_order_of_its_branches(host: Host):
    branches = {"z == 1": "end", "a == 1": "end", "m == 1": "end"}
    document = definition("d", step("route", "DECISION", conditionalNextSteps=branches), end())
    await host.upload(document)
    published = await dialects.get_version(STEP_DIALECT, host.runtime.processes, host.caller, "d")
    read = json.loads(json.dumps(definition_to_document(published.process.definition, published.version)))
    assert list(read["steps"][0]["conditionalNextSteps"]) == list(branches)


async def test_the_same_content_gets_the_same_version_and_other_content_the_next(host: Host):
    first = await dialects.upload_definition(STEP_DIALECT, host.runtime.processes, host.caller, json.dumps(THREE_STEPS))
    again = await dialects.upload_definition(
        STEP_DIALECT, host.runtime.processes, host.caller, json.dumps(THREE_STEPS, indent=2)
    )
    other = await dialects.upload_definition(
        STEP_DIALECT, host.runtime.processes, host.caller, json.dumps({**THREE_STEPS, "description": "other"})
    )
    assert [(one.version, one.is_new) for one in (first, again, other)] == [(1, True), (1, False), (2, True)]
    assert again.uploaded_at == first.uploaded_at
    [summary] = (await dialects.list_definitions(STEP_DIALECT, host.runtime.processes, host.caller)).items
    assert (summary.version, summary.versions) == (2, (1, 2))


async def test_an_instance_keeps_the_version_it_was_started_with(host: Host):
    await host.upload(definition("d", service_task("old", "end"), end()))
    instance = await host.start("d")
    await host.upload(definition("d", service_task("new", "end"), end()))
    assert (await host.start("d")).current_step_ids == ("new",)
    await host.do("old")
    assert (await host.read(instance)).status == "COMPLETED"


async def test_definitions_are_found_by_any_part_of_name_or_id(host: Host):
    for id_, name in (("HR::a", "Onboarding"), ("HR::b", "Leave 100%"), ("FIN::c", "Invoice")):
        await host.upload({**definition(id_, end()), "name": name})

    async def found(keyword: str) -> list[str]:
        return [
            one.id
            for one in (
                await dialects.list_definitions(STEP_DIALECT, host.runtime.processes, host.caller, keyword=keyword)
            ).items
        ]

    assert await found("hr::") == ["HR::a", "HR::b"]
    assert await found("INV") == ["FIN::c"]
    assert await found("%") == ["HR::b"]
    page = await dialects.list_definitions(STEP_DIALECT, host.runtime.processes, host.caller, page=1, page_size=2)
    assert ([one.id for one in page.items], page.total) == (["HR::b"], 3)


@pytest.mark.parametrize("source", ["{", '{"id": "my flow", "name": "n", "steps": []}'])
async def test_a_definition_that_cannot_run_is_refused(host: Host, source: str):
    with pytest.raises(ProcessBadRequest):
        await dialects.upload_definition(STEP_DIALECT, host.runtime.processes, host.caller, source)


async def test_unknown_definitions_are_not_found(host: Host):
    await host.upload(THREE_STEPS)
    for name, version in (("nothing", 0), ("chain", 2), ("chain", 2**40)):
        with pytest.raises(ProcessNotFound, match=r"^definition not found$"):
            await dialects.get_version(STEP_DIALECT, host.runtime.processes, host.caller, name, version)
    with pytest.raises(ProcessNotFound, match=r'^start: load definition "nothing": definition not found$'):
        await host.start("nothing")
    with pytest.raises(ProcessBadRequest, match=r"^definitionId is required$"):
        await host.start("")


async def test_a_business_key_belongs_to_one_instance_in_flight_of_its_definition(host: Host):
    await host.upload(THREE_STEPS, definition("other", service_task("x", "end"), end()))
    first = await host.start("chain", "K-1")
    with pytest.raises(BusinessKeyInUse):
        await host.start("chain", "K-1")
    await host.start("other", "K-1")
    await host.cancel(first)
    second = await host.start("chain", "K-1")
    assert [one.id for one in await host.all(business_key="K-1", definition_id="chain")] == [second.id, first.id]


async def test_a_retry_needs_the_business_key_to_be_free(host: Host):
    await host.upload(THREE_STEPS)
    failed = await host.start("chain", "K-1")
    await host.fail(await host.job("a"), retryable=False)
    holder = await host.start("chain", "K-1")
    with pytest.raises(BusinessKeyInUse):
        await host.retry(failed, "a")
    await host.cancel(holder)
    assert (await host.retry(failed, "a")).status == "ACTIVE"
    with pytest.raises(BusinessKeyInUse):
        await host.start("chain", "K-1")


async def test_instances_are_listed_newest_first_by_any_filter(host: Host):
    await host.upload(THREE_STEPS, definition("quick", end()))
    running = [await host.start("chain") for _ in range(3)]
    done = await host.start("quick")
    assert [one.id for one in await host.all()] == [done.id, *(one.id for one in reversed(running))]
    assert [one.id for one in await host.all(status="COMPLETED")] == [done.id]
    assert await host.all(status="NONSENSE") == ()
    assert await host.all(status="ACTIVE", definition_id="quick") == ()
    page = await host.stream(definition_id="chain", page=1, page_size=2)
    assert ([one.id for one in await read_page(page)], page.total) == ([running[0].id], 3)
    beyond = await host.stream(page=2**62, page_size=10**6)
    assert (await read_page(beyond), beyond.page_size, beyond.total) == ((), 1000, 4)


async def test_tenants_see_nothing_of_each_other(host: Host):
    await host.upload(THREE_STEPS)
    instance = await host.start("chain", "K-1")
    stranger = host.of("stranger")
    with pytest.raises(ProcessNotFound):
        await stranger.start("chain")
    await stranger.upload(THREE_STEPS)
    await stranger.start("chain", "K-1")
    with pytest.raises(ProcessNotFound):
        await stranger.read(instance)
    with pytest.raises(ProcessNotFound):
        await stranger.cancel(instance)
    [job] = await host.claim("a")
    assert job.instance_id == instance.id
    with pytest.raises(ProcessNotFound):
        await stranger.complete(job)
    assert len(await stranger.claim("a")) == 1


@pytest.mark.parametrize(
    "variables", ['{"a": "x\\u0000"}', '{"a":' + "[" * 255 + "]" * 255 + "}"], ids=["nul", "nesting"]
)
async def test_variables_that_cannot_be_stored_are_refused(host: Host, variables: str):
    value = json.loads(variables)
    await host.upload(THREE_STEPS)
    with pytest.raises(ProcessBadRequest, match="variables"):
        await host.start("chain", **value)
    await host.start("chain")
    job = await host.job("a")
    with pytest.raises(ProcessBadRequest, match="variables"):
        await host.complete(job, **value)
    await host.complete(job)


async def test_an_expression_that_makes_what_cannot_be_stored_fails_the_instance(host: Host):
    entries = {"bad": '${fromBase64("AGE=")}'}
    await host.upload(definition("d", step("t", "TRANSFORMATION", "end", transformations=entries), end()))
    failed = await host.start("d")
    assert failed.status == "FAILED"
    assert "NUL character" in str((await host.read(failed)).failure_reason)


async def test_large_and_exact_numbers_come_back_as_they_were(host: Host):
    await host.upload(THREE_STEPS)
    value: Json = decode('{"big": 9223372036854775808123, "exact": 0.1000000000000000055511151231257827}')
    instance = await host.start("chain", **value)
    assert (await host.read(instance)).variables == value
    assert (await host.job("a")).variables == value


async def test_the_step_engine_takes_no_part_in_other_transactions(host: Host):
    await host.upload(THREE_STEPS)
    async with host.runtime.core.open_unit(host.caller) as unit:
        inside = Host(host.runtime, Caller(host.caller.principal, unit), host.clock)
        with pytest.raises(BadRequest, match="another transaction"):
            await inside.start("chain")


async def test_names_as_long_as_they_may_be_are_stored_and_longer_keys_refused(host: Host):
    wide = "".join(chr(0x10000 + n * 97) for n in range(512))  # four bytes each, and nothing to compress
    tagged = {"dispatch": {wide[:256]: {"calculationNodesTags": wide[256:]}}}
    await host.upload(definition("wide", service_task(wide[:256], "end"), end(), metadata=tagged))
    started = await host.start("wide", business_key=wide)
    assert [job.instance_id for job in await host.claim(wide[:256])] == [started.id]
    with pytest.raises(ProcessBadRequest, match="businessKey must be ≤ 512 characters, got 513"):
        await host.start("wide", business_key=wide + "x")
