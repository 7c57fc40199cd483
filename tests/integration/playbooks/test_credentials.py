"""Credentials of playbooks when an execution starts (docs/reference/executions.md#keychain)."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from statewright.failures import ProcessBadRequest
from tests.integration.playbooks.node import PlaybookNode, a_playbook_node
from tests.integration.steps.conftest import Host

KEYCHAIN = "keychain: [{name: shop, kind: bearer}]\n"
SENT_BY_THE_SERVICE = KEYCHAIN + "workflow: [{step: s, tool: {kind: http, url: 'http://x.test/', auth: shop}}]"
SENT_BY_A_WORKER = KEYCHAIN + "workflow: [{step: s, tool: [{kind: python}, {kind: http, url: 'http://x.test/'}]}]"


async def test_an_execution_does_not_start_without_the_credentials_that_the_service_needs(
    database: str, tmp_path: Path
):
    async with a_playbook_node(database) as node:
        runtime = node.host.runtime
        processes = replace(runtime.processes, credentials=tmp_path, sends_requests=True)
        node = PlaybookNode(Host(replace(runtime, processes=processes), node.host.caller, node.host.clock))
        with pytest.raises(ProcessBadRequest, match="keychain: the credential shop is not there"):
            await node.run(SENT_BY_THE_SERVICE)
        assert (await node.read(await node.run(SENT_BY_A_WORKER))).outcome == "running"
        own = tmp_path / node.host.caller.tenant
        own.mkdir()
        (own / "shop").write_text("secret-token")
        assert (await node.read(await node.run(SENT_BY_THE_SERVICE))).outcome == "running"
