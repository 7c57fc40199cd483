"""Credentials of playbooks when an execution starts (docs/reference/executions.md#keychain)."""

from pathlib import Path

import pytest

from statewright.failures import ProcessBadRequest
from statewright.services.playbooks.keychain import Keychain
from statewright.services.playbooks.resources import PipelineResources
from tests.integration.playbooks.node import a_playbook_node

KEYCHAIN = "keychain: [{name: shop, kind: bearer}]\n"
SENT_BY_THE_SERVICE = KEYCHAIN + "workflow: [{step: s, tool: {kind: http, url: 'http://x.test/', auth: shop}}]"
SENT_BY_A_WORKER = KEYCHAIN + "workflow: [{step: s, tool: [{kind: python}, {kind: http, url: 'http://x.test/'}]}]"


async def test_an_execution_does_not_start_without_the_credentials_that_the_service_needs(
    database: str, tmp_path: Path
):
    async with a_playbook_node(database) as node:
        resources = PipelineResources(keychain=Keychain(tmp_path), sends_requests=True)
        node.host.runtime.extensions.add(resources)
        with pytest.raises(ProcessBadRequest, match="keychain: the credential shop is not there"):
            await node.run(SENT_BY_THE_SERVICE)
        assert (await node.read(await node.run(SENT_BY_A_WORKER))).outcome == "running"
        own = tmp_path / node.host.caller.tenant
        own.mkdir()
        (own / "shop").write_text("secret-token")
        assert (await node.read(await node.run(SENT_BY_THE_SERVICE))).outcome == "running"
