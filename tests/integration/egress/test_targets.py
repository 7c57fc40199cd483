"""Webhooks go to addresses that were checked, by names that lie and redirects that lead inside
(docs/reference/operations.md#targets).
"""

import pytest

from statewright.egress import Egress
from statewright.failures import TargetNotAllowed
from statewright.ids import TenantId
from statewright.operations.subscriptions import SubscriptionTarget
from statewright.services.ops.targets import Letter, Outcome, Signer, check_url, make_secret, open_sender
from tests.integration.egress.conftest import PERMITTED, REFUSED, Names, open_egress, respond, serve

LETTER = Letter(tenant=TenantId("acme"), id="t:e", subject="e", body=b"{}")


async def deliver(egress: Egress, url: str) -> Outcome:
    signers = (Signer(make_secret()),)
    sender = open_sender(egress, SubscriptionTarget(url=url), signers, lambda: 1_700_000_000_000_000)
    try:
        return await sender.deliver(LETTER)
    finally:
        await sender.close()


async def test_a_name_that_is_public_at_first_and_private_at_the_connection_gets_no_packet():
    names = Names(rebinding_test=[[PERMITTED], [REFUSED]])
    async with serve(respond()) as server, open_egress(names) as egress:
        url = server.url("rebinding.test")
        await check_url(egress, url, allows_inside=False)
        outcome = await deliver(egress, url)
    assert outcome == Outcome(error="address_refused: rebinding.test has an address that is not permitted")
    assert server.connections == []


async def test_a_name_that_is_private_is_refused_without_telling_what_it_is():
    async with serve(respond()) as server, open_egress(Names(inside_test=[[REFUSED]])) as egress:
        for host in ("inside.test", "nowhere.test"):
            with pytest.raises(TargetNotAllowed) as refusal:
                await check_url(egress, server.url(host), allows_inside=False)
            told = "its host cannot be reached, or may not be; private ones need STATEWRIGHT_WEBHOOK_ALLOW_"
            assert told in str(refusal.value)
    assert server.connections == []


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"])
async def test_a_redirect_inside_is_a_failed_attempt_and_not_followed(status: str):
    async with serve(respond()) as inside:
        answer = respond(status=status, Location=inside.url(REFUSED))
        async with serve(answer) as server, open_egress() as egress:
            outcome = await deliver(egress, server.url())
    assert outcome == Outcome(error=f"the target answered {status[:3]}", http_status=int(status[:3]))
    assert inside.connections == []
    assert server.connections == [PERMITTED]
