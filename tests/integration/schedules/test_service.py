"""The scheduler as a part of the running service: its rhythm, its switch, restarts and shutdown."""

from contextlib import ExitStack, nullcontext
from datetime import timedelta

import httpx

from tests.builders import a_processor, a_workflow
from tests.integration.node import a_node
from tests.integration.schedules.conftest import meanwhile, scheduled
from tests.service import PATIENCE_S, eventually, hosted

OFTEN = {"scheduler_scan_interval": timedelta(milliseconds=20), "scheduler_redispatch_backoff": timedelta(seconds=1)}


def a_lapse(**members):
    return a_workflow(Booked=[scheduled("lapse", to="Lapsed", delay_ms=1, **members)], Lapsed=[])


def test_what_is_due_fires_by_itself(database, tenant):
    with hosted(nullcontext(database), **OFTEN) as service:
        api = service.api(tenant)
        entity = api.create(model=api.a_model(a_lapse())).id
        eventually(lambda: api.state(entity) == "Lapsed")


def test_a_backlog_of_several_batches_is_worked_off(database, tenant):
    with hosted(nullcontext(database), scheduler_enabled=False) as service:
        api = service.api(tenant)
        model = api.a_model(a_lapse())
        entities = [api.create(model=model).id for _ in range(25)]
    with hosted(nullcontext(database), scheduler_scan_interval=timedelta(seconds=1), scheduler_batch_size=3) as service:
        api = service.api(tenant)
        eventually(lambda: all(api.state(entity) == "Lapsed" for entity in entities))


def test_tasks_armed_while_the_scheduler_was_off_fire_after_a_restart(database, tenant):
    with hosted(nullcontext(database), scheduler_enabled=False) as service:
        api = service.api(tenant)
        entity = api.create(model=api.a_model(a_lapse())).id
    with hosted(nullcontext(database), **OFTEN) as service:
        api = service.api(tenant)
        eventually(lambda: api.state(entity) == "Lapsed")


def test_a_failed_fire_is_repeated_until_a_member_has_come(database, tenant):
    with hosted(nullcontext(database), **OFTEN) as service:
        api = service.api(tenant)
        entity = api.create(model=api.a_model(a_lapse(processors=[a_processor(tags="late")]))).id
        with a_node(service, tenant, "late") as node:
            node.answer_next()
            eventually(lambda: api.state(entity) == "Lapsed")


def test_two_nodes_share_the_work(database, tenant):
    with hosted(nullcontext(database), **OFTEN) as service, hosted(nullcontext(database), **OFTEN):
        api = service.api(tenant)
        model = api.a_model(a_lapse())
        entities = [api.create(model=model).id for _ in range(20)]
        eventually(lambda: all(api.state(entity) == "Lapsed" for entity in entities))
        assert all(len(api.get(f"/entity/{entity}/changes").json()) == 2 for entity in entities)


def test_a_shutdown_lets_a_fire_come_to_its_end(database, tenant):
    with ExitStack() as longer:
        with hosted(nullcontext(database), **OFTEN) as service:
            api = service.api(tenant)
            entity = api.create(model=api.a_model(a_lapse(processors=[a_processor(tags="slow")]))).id
            node = longer.enter_context(a_node(service, tenant, "slow"))
            request = node.next()

            def answer_late():
                eventually(lambda: httpx.get(f"{service.admin}/readyz").status_code == 503)
                node.answer(request)

            answered = meanwhile(answer_late)
        answered.result(PATIENCE_S)
    with hosted(nullcontext(database), scheduler_enabled=False) as service:
        assert service.api(tenant).state(entity) == "Lapsed"
