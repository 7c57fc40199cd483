"""What each of those who send requests may take of a listener."""

import pytest

from statewright.api.http.asgi import Claim, Shares
from statewright.entity import Principal
from statewright.failures import ServiceBusy, ShareTaken
from statewright.ids import TenantId


def a_principal(tenant: str, name: str) -> Principal:
    return Principal(id=name, name=name, kind="user", tenant=TenantId(tenant), roles=())


def a_claim(shares: Shares, address: str = "192.0.2.1", principal: Principal | None = None) -> Claim:
    claim = Claim(shares, address)
    claim.begin()
    if principal is not None:
        claim.name(principal)
    return claim


def test_an_address_has_three_quarters():
    shares = Shares(8)
    for _ in range(6):
        a_claim(shares)
    with pytest.raises(ShareTaken):
        a_claim(shares)
    a_claim(shares, "192.0.2.2")


def test_the_addresses_of_a_site_have_one_share():
    shares = Shares(8)
    for n in range(6):
        a_claim(shares, f"2001:db8::{n}")
    with pytest.raises(ShareTaken):
        a_claim(shares, "2001:db8::ffff:7")
    a_claim(shares, "2001:db8:0:1::")


def test_all_together_leave_an_eighth_for_probes():
    shares = Shares(8)
    for n in range(7):
        a_claim(shares, f"192.0.2.{n}")
    with pytest.raises(ServiceBusy) as refused:
        a_claim(shares, "192.0.2.9")
    assert (refused.value.code, refused.value.retry_after_s) == ("SERVICE_BUSY", 1)


def test_a_principal_has_half_and_its_tenant_three_quarters():
    shares = Shares(16)
    for n in range(8):
        a_claim(shares, f"192.0.2.{n}", a_principal("one", "alice"))
    with pytest.raises(ShareTaken):
        a_claim(shares, "192.0.2.9", a_principal("one", "alice"))
    for n in range(4):
        a_claim(shares, f"192.0.3.{n}", a_principal("one", "bob"))
    with pytest.raises(ShareTaken):
        a_claim(shares, "192.0.3.9", a_principal("one", "bob"))


def test_bodies_of_strangers_have_a_quarter():
    shares = Shares(8)
    for n in range(2):
        a_claim(shares, f"192.0.2.{n}").stay_anonymous()
    with pytest.raises(ServiceBusy):
        a_claim(shares, "192.0.2.9").stay_anonymous()


def test_what_has_ended_is_free_again_and_forgotten():
    shares = Shares(8)
    for _ in range(20):
        claim = a_claim(shares, principal=a_principal("one", "alice"))
        claim.end()
        claim.end()
    assert len(shares) == 0


def test_a_refused_request_takes_nothing():
    shares = Shares(8)
    held = [a_claim(shares) for _ in range(6)]
    refused = Claim(shares, "192.0.2.1")
    with pytest.raises(ShareTaken):
        refused.begin()
    for claim in (*held, refused):
        claim.end()
    assert len(shares) == 0
