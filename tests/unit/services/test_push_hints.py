"""Which new jobs the members of a node may do, so that it looks for them."""

from types import SimpleNamespace
from typing import Any

import pytest

from statewright.compute.members import Members
from statewright.ids import TenantId
from statewright.services.processes.push import Pusher
from statewright.services.processes.wakeups import ANY_TYPE, TAGGED

ACME, GLOBEX = TenantId("acme"), TenantId("globex")


@pytest.fixture
async def pusher() -> Pusher[Any, Any]:
    """Of a node with a member of one tenant."""
    members = Members()
    members.join(ACME, ["Greet", "billing"], member_id="m")
    host: Any = SimpleNamespace(language=SimpleNamespace(name="steps"), parts=None)
    callouts: Any = None
    return Pusher(host, members, callouts)


@pytest.mark.parametrize(
    ("topic", "looks"),
    [
        ((ACME, "steps", "greet"), True),
        ((ACME, "steps", "GREET"), True),
        ((ACME, "steps", "other"), False),
        ((ACME, "flows", "greet"), False),
        ((GLOBEX, "steps", "greet"), False),
        ((ACME, "steps", TAGGED), True),
        ((GLOBEX, "steps", TAGGED), False),
        ((ACME, "steps", ANY_TYPE), True),
    ],
)
async def test_a_look_is_made_for_jobs_that_a_member_may_do(
    pusher: Pusher[Any, Any], topic: tuple[TenantId, str, str], looks: bool
) -> None:
    pusher.take([(GLOBEX, "steps", "none"), topic])
    assert pusher.is_woken == looks


async def test_a_look_is_made_when_nothing_is_known(pusher: Pusher[Any, Any]) -> None:
    pusher.take_all()
    assert pusher.is_woken
