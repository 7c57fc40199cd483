"""The node that delivers events is killed (docs/reference/operations.md#delivery)."""

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path

from tests.builders import a_workflow, manual
from tests.database import Template
from tests.e2e.program import started
from tests.e2e.test_bulk_kills import build_api, fetch
from tests.receiver import Receiver
from tests.receiver import receiver as receiver
from tests.service import eventually

MADE = "SELECT transaction_id, id FROM entity WHERE valid_from > (SELECT since FROM event_recording)"


def test_nothing_is_missing_though_the_node_is_killed(
    tmp_path: Path, database_template: Template, receiver: Receiver
) -> None:
    with asyncio.Runner() as runner, ExitStack() as stack:
        clone = database_template.clone()
        url = runner.run(clone.__aenter__())
        stack.callback(lambda: runner.run(clone.__aexit__(None, None, None)))
        allowed = {"WEBHOOK_ALLOW_HTTP": "true", "WEBHOOK_ALLOW_PRIVATE_NETWORKS": "true"}
        settings = {"POSTGRES_URL": url, "NODE_LEASE": "2s", **allowed}
        first = stack.enter_context(started(tmp_path, **settings)).ready()
        api, ops = build_api(first, "/api"), build_api(first, "/ops/v1")
        model = api.a_model(a_workflow(NEW=[manual("GO", to="NEW")]))
        assert ops.post("/subscriptions", {"name": "x", "target": {"url": receiver.url}}).status_code == 201
        eventually(lambda: runner.run(fetch(url, "SELECT FROM event_subscription WHERE worker IS NOT NULL")))
        second = stack.enter_context(started(tmp_path, **settings)).ready()
        other = build_api(second, "/api")
        for _ in range(40):
            api.create(model=model)
        eventually(lambda: len(receiver.got) >= 10)
        first.process.send_signal(signal.SIGKILL)
        for _ in range(40):
            other.create(model=model)
        made = {f"{transaction}:{id_}" for transaction, id_ in runner.run(fetch(url, MADE))}
        assert len(made) == 80
        eventually(lambda: {str(event["id"]) for event in receiver.events} == made, within_s=40)
