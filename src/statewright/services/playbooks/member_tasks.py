"""Tasks that calculation members do: each is one processor request, like those of workflows
(docs/reference/executions.md#calculation-members).
"""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from statewright.background import run_by_size
from statewright.compute.callout import Callout, CalloutResult
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, Failure, NoComputeMember
from statewright.ids import TenantId
from statewright.instants import format_instant
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.member_calls import MemberCall, build_member_call
from statewright.playbooks.models import EXECUTION
from statewright.playbooks.outcomes import Outcome, fail, succeed
from statewright.playbooks.pipeline import ToolCall
from statewright.services.processes.writing import to_entity_id
from statewright.services.runtime import Runtime
from statewright.services.scheduler import system_principal
from statewright.tracing import get_trace

LOOK_INTERVAL_S: Final = 0.25
"""Between two looks for a member that is not there yet."""


class Callouts(Protocol):
    """Sends callouts to the members of all nodes."""

    def dispatch(self, callout: Callout) -> Awaitable[CalloutResult]:
        """The reply. Raises ``NoComputeMember``, ``DispatchTimeout``, ``ComputeMemberDisconnected``."""
        ...


class MemberTasks:
    """Has members do tasks. ``wait``: how long a task waits for a member that offers its tags."""

    def __init__(self, runtime: Runtime, callouts: Callouts, *, wait: timedelta) -> None:
        self._runtime = runtime
        self._callouts = callouts
        self._wait_s = wait.total_seconds()

    async def do(self, tenant: TenantId, call: ToolCall, dispatch: Dispatch) -> Outcome:
        """The outcome of a task, whatever becomes of the member."""
        asked = build_member_call(call, dispatch)
        if isinstance(asked, Outcome):
            return asked
        if await self._is_suspended(tenant, asked.tags):
            return fail("suspended", f"dispatch to {','.join(asked.tags)} is suspended", retryable=True)
        try:
            reply = await self._send(tenant, asked, dispatch)
        except NoComputeMember as error:
            return fail("no_compute_member", error.message, code=error.code, retryable=True)
        except DispatchTimeout as error:
            return fail("timeout", error.message, code=error.code, retryable=True)
        except ComputeMemberDisconnected as error:
            return fail("member_lost", error.message, code=error.code, retryable=True)
        except Failure as error:
            return fail("member", error.message, code=error.code, retryable=error.retryable)
        if not reply.success:
            return fail("tool", reply.error or "the member gave no reason", retryable=reply.retryable)
        if reply.data is msgspec.UNSET:
            return succeed(None)
        data = reply.data
        try:
            return succeed(await run_by_size(len(data), lambda: decode(data)))
        except MalformedJson as malformed:
            return fail("tool", f"the answer of the member is no JSON: {malformed}", retryable=False)

    async def _is_suspended(self, tenant: TenantId, tags: tuple[str, ...]) -> bool:
        suspensions = self._runtime.suspensions
        if not suspensions.is_current():
            await suspensions.ensure_current()
        return suspensions.find_tags(tenant, tags) is not None

    async def _send(self, tenant: TenantId, asked: MemberCall, dispatch: Dispatch) -> CalloutResult:
        """The reply of a member, once there is one."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._wait_s
        while True:
            try:
                return await self._callouts.dispatch(self._build_callout(tenant, asked, dispatch))
            except NoComputeMember:
                if clock() + LOOK_INTERVAL_S > until:
                    raise
            await asyncio.sleep(LOOK_INTERVAL_S)

    def _build_callout(self, tenant: TenantId, asked: MemberCall, dispatch: Dispatch) -> Callout:
        instance, now = to_entity_id(dispatch.execution_id), format_instant(self._runtime.clock())
        meta: JsonObject = {
            "id": instance,
            "modelKey": {"name": EXECUTION.key.name, "version": EXECUTION.key.version},
            "state": "RUNNING",
            "creationDate": now,
            "lastUpdateTime": now,
            "transactionId": "",
            "run": asked.run,
        }
        return Callout(
            kind="processor",
            request_id=self._runtime.ids(),
            tenant=tenant,
            name=asked.name,
            tags=tuple(tag.lower() for tag in asked.tags),
            tags_text=",".join(asked.tags),
            timeout_ms=asked.timeout_ms,
            entity_id=instance,
            workflow=dispatch.execution_id,
            transition=dispatch.step,
            state_from="",
            state_to="",
            target="",
            transaction_id="",
            parameters=asked.context,
            payload=encode({"type": "JSON", "data": asked.data, "meta": meta}),
            principal=system_principal(tenant),
            tx_token=None,
            trace=get_trace(),
        )
