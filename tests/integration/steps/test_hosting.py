"""Instances from start to end over the database: every step type, as the doors see it."""

from tests.integration.steps.conftest import THREE_STEPS, Host


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
    assert await host.count("SELECT count(*) FROM step_job") == 0
