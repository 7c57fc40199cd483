"""The clients: of applications, and of functions, whose requests join the transaction of their callout.

``Client`` waits in its thread, ``AsyncClient`` on an event loop; both offer the same operations, made from the same
values (``operations``). What does not succeed raises one of the exceptions of ``errors``.

    with Client("http://localhost:8080") as client:
        order = client.create("order", 1, {"sku": "A-1", "qty": 2})
        client.transition(order.id, "CONFIRM")
"""

import os
from typing import Self

from statewright.sdk.endpoint import Address, Tls, read_address, read_tls
from statewright.sdk.exchange import (
    ONCE,
    Awaited,
    Blocking,
    ClientPart,
    ClientSession,
    Items,
    Part,
    RetryPolicy,
    Transport,
    make_method,
    make_script_method,
)
from statewright.sdk.http import RESPONSE_TIMEOUT_S, HttpTransport
from statewright.sdk.operations import audit, calls, entities, flows, messages, models, playbooks, steps
from statewright.sdk.operations import search as searching
from statewright.sdk.operations import search as statistics
from statewright.sdk.operations.ops.bulk_jobs import BulkMethods
from statewright.sdk.operations.ops.events import EventMethods
from statewright.sdk.operations.ops.history import HistoryMethods
from statewright.sdk.operations.ops.incidents import IncidentMethods
from statewright.sdk.operations.ops.subscriptions import SubscriptionMethods
from statewright.sdk.operations.ops.suspensions import SuspensionMethods
from statewright.sdk.operations.ops.work import WorkMethods
from statewright.sdk.tokens import Token, make_token_source, read_token


class _Models:
    list = make_method(models.list_all)
    import_sample = make_method(models.import_sample)
    import_schema = make_method(models.import_schema)
    export_schema = make_method(models.export_schema)
    lock = make_method(models.lock)
    unlock = make_method(models.unlock)
    set_change_level = make_method(models.set_change_level)
    set_unique_keys = make_method(models.set_unique_keys)
    validate = make_method(models.validate)
    delete = make_method(models.delete)


class Models(_Models, Blocking):
    """Models: schemas of entities."""


class AsyncModels(_Models, Awaited):
    """Models: schemas of entities."""


class _Workflows:
    import_ = make_method(models.import_)
    check = make_method(models.check)
    export = make_method(models.export)


class Workflows(_Workflows, Blocking):
    """Workflows of models."""


class AsyncWorkflows(_Workflows, Awaited):
    """Workflows of models."""


class _Searches:
    start = make_method(searching.start)
    status = make_method(searching.status)
    wait = make_script_method(searching.wait)
    results = Items(searching.results)
    cancel = make_method(searching.cancel)


class Searches(_Searches, Blocking):
    """Searches as jobs, whose results are kept."""


class AsyncSearches(_Searches, Awaited):
    """Searches as jobs, whose results are kept."""


class _Messages:
    send = make_method(messages.send)
    get = make_method(messages.get)
    delete = make_method(messages.delete)


class Messages(_Messages, Blocking):
    """Edge messages."""


class AsyncMessages(_Messages, Awaited):
    """Edge messages."""


class _Steps:
    upload = make_method(steps.upload)
    definition = make_method(steps.definition)
    definitions = Items(steps.definitions)
    start = make_method(steps.start)
    instance = make_method(steps.instance)
    instances = Items(steps.instances)
    wait = make_script_method(steps.wait)
    history = make_method(steps.history)
    signal = make_method(steps.signal)
    retry = make_method(steps.retry)
    cancel = make_method(steps.cancel)
    user_tasks = Items(steps.user_tasks)
    complete_task = make_method(steps.complete_task)


class Steps(_Steps, Blocking):
    """The JSON step engine: definitions, instances, tasks of people."""


class AsyncSteps(_Steps, Awaited):
    """The JSON step engine: definitions, instances, tasks of people."""


class _Tasks:
    list = Items(steps.tasks)
    complete = make_method(steps.complete_task)


class Tasks(_Tasks, Blocking):
    """User tasks of all process languages."""


class AsyncTasks(_Tasks, Awaited):
    """User tasks of all process languages."""


class _Flows:
    upload = make_method(flows.upload)
    check = make_method(flows.check)
    definition = make_method(flows.definition)
    definitions = Items(flows.definitions)
    start = make_method(flows.start)
    instance = make_method(flows.instance)
    instances = Items(flows.instances)
    wait = make_script_method(flows.wait)
    history = Items(flows.history)
    cancel = make_method(flows.cancel)
    terminate = make_method(flows.terminate)
    restart = make_method(flows.restart)
    change = make_method(flows.change)
    send_event = make_script_method(flows.send_event)
    counter = make_method(flows.counter)


class Flows(_Flows, Blocking):
    """Flows: definitions and instances."""


class AsyncFlows(_Flows, Awaited):
    """Flows: definitions and instances."""


class _Playbooks:
    upload = make_method(playbooks.upload)
    check = make_method(playbooks.check)
    definition = make_method(playbooks.definition)
    definitions = Items(playbooks.definitions)
    start = make_method(playbooks.start)
    execution = make_method(playbooks.execution)
    executions = Items(playbooks.executions)
    wait = make_script_method(playbooks.wait)
    history = Items(playbooks.history)
    events = Items(playbooks.events)
    follow = Items(playbooks.follow)
    get_value = make_method(playbooks.get_value)
    patch = make_method(playbooks.patch)
    inject = make_method(playbooks.inject)
    evaluate = make_method(playbooks.evaluate)
    cancel = make_method(playbooks.cancel)
    restart = make_method(playbooks.restart)


class Playbooks(_Playbooks, Blocking):
    """Playbooks: definitions, executions and their event logs."""


class AsyncPlaybooks(_Playbooks, Awaited):
    """Playbooks: definitions, executions and their event logs."""


class Ops(HistoryMethods, WorkMethods, Blocking):
    """Why something waits, who works, what was done."""


class AsyncOps(HistoryMethods, WorkMethods, Awaited):
    """Why something waits, who works, what was done."""


class Incidents(IncidentMethods, Blocking):
    """Failed work, and doing it again."""


class AsyncIncidents(IncidentMethods, Awaited):
    """Failed work, and doing it again."""


class Suspensions(SuspensionMethods, Blocking):
    """Movement that is stopped at a chosen place."""


class AsyncSuspensions(SuspensionMethods, Awaited):
    """Movement that is stopped at a chosen place."""


class Bulk(BulkMethods, Blocking):
    """One operation on many entities."""


class AsyncBulk(BulkMethods, Awaited):
    """One operation on many entities."""


class Events(EventMethods, Blocking):
    """What was committed, for other systems."""


class AsyncEvents(EventMethods, Awaited):
    """What was committed, for other systems."""


class Subscriptions(SubscriptionMethods, Blocking):
    """Who is told of what was committed."""


class AsyncSubscriptions(SubscriptionMethods, Awaited):
    """Who is told of what was committed."""


class _AnyClient(ClientPart):
    """What both clients have in common."""

    create = make_method(entities.create)
    create_many = make_method(entities.create_many)
    get = make_method(entities.get)
    page = make_method(entities.page)
    iterate = Items(entities.iterate)
    update = make_method(entities.update)
    patch = make_method(entities.patch)
    transition = make_method(entities.transition)
    transitions = make_method(entities.transitions)
    delete = make_method(entities.delete)
    delete_matching = make_method(entities.delete_matching)
    history = make_method(entities.history)
    audit = Items(audit.events)
    search = make_method(searching.search)
    search_all = Items(searching.search_all)
    count = make_method(statistics.count)
    count_states = make_method(statistics.count_states)
    group = make_method(statistics.group)
    request = make_method(calls.request)
    fetch = make_method(calls.fetch)
    models = Part(Models, AsyncModels)
    workflows = Part(Workflows, AsyncWorkflows)
    searches = Part(Searches, AsyncSearches)
    messages = Part(Messages, AsyncMessages)
    steps = Part(Steps, AsyncSteps)
    tasks = Part(Tasks, AsyncTasks)
    flows = Part(Flows, AsyncFlows)
    playbooks = Part(Playbooks, AsyncPlaybooks)
    ops = Part(Ops, AsyncOps)
    incidents = Part(Incidents, AsyncIncidents)
    suspensions = Part(Suspensions, AsyncSuspensions)
    bulk = Part(Bulk, AsyncBulk)
    events = Part(Events, AsyncEvents)
    subscriptions = Part(Subscriptions, AsyncSubscriptions)

    def __init__(
        self,
        url: str | None = None,
        *,
        token: Token = None,
        tls: Tls | None = None,
        timeout_s: float = RESPONSE_TIMEOUT_S,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    ) -> None:
        """``url`` is the address of the service, with or without its context path; ``tls`` names a private authority or
        a client certificate. An answer may take ``timeout_s`` seconds, and requests that may be repeated are, by
        ``retry`` (``ONCE``: they are not).

        What is not given comes from the environment: ``STATEWRIGHT_URL`` (a service on this machine if it is not set),
        ``STATEWRIGHT_TOKEN`` or ``STATEWRIGHT_CLIENT_ID`` and ``STATEWRIGHT_CLIENT_SECRET``, ``STATEWRIGHT_CA``. Raises
        ``UnusableAddress`` and ``UnusableTls``.
        """
        self._address: Address = read_address(os.environ, url)
        tls = tls if tls is not None else read_tls(os.environ)
        tokens = make_token_source(
            token if token is not None else read_token(os.environ), address=self._address, tls=tls
        )
        self._http: HttpTransport | None = HttpTransport(self._address, tokens, tls, timeout_s=timeout_s)
        self._session = ClientSession(self._http, None, retry)

    @classmethod
    def over(cls, transport: Transport, tx_token: str | None = None, *, retry: RetryPolicy = ONCE) -> Self:
        """A client over a transport that is there already, and closed by its owner; with a transaction token its
        requests join that transaction. Nothing is sent again in a callout, which has a deadline of its own.
        """
        client = cls.__new__(cls)
        client._http = None
        client._session = ClientSession(transport, tx_token, retry)
        return client

    def with_retry(self, retry: RetryPolicy) -> Self:
        """The same client, which tries its requests otherwise. It uses the connections of this one, and ends none."""
        return self.over(self._session.transport, self._session.tx_token, retry=retry)

    @property
    def joins(self) -> bool:
        """Whether requests are part of the transaction of a callout."""
        return self._session.joins


class Client(_AnyClient, Blocking):
    """Requests that wait in their thread. Safe to use from several threads."""

    def close(self) -> None:
        """Ends the connections; a client of a callout leaves them to its node."""
        if self._http is not None:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()


class AsyncClient(_AnyClient, Awaited):
    """Requests to be awaited, on one event loop."""

    async def close(self) -> None:
        """Ends the connections; a client of a callout leaves them to its node."""
        if self._http is not None:
            await self._http.close_async()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.close()
