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
    ClientPart,
    ClientSession,
    RetryPolicy,
    Subject,
    Transport,
    build_async_iterator,
    build_awaited,
    build_awaited_script,
    build_blocking,
    build_blocking_script,
    build_iterator,
)
from statewright.sdk.http import RESPONSE_TIMEOUT_S, HttpTransport
from statewright.sdk.operations import audit, calls, entities, flows, messages, models, playbooks, steps
from statewright.sdk.operations import search as searching
from statewright.sdk.operations import search as statistics
from statewright.sdk.operators import (
    AsyncIncidents,
    AsyncOps,
    AsyncSuspensions,
    Incidents,
    Ops,
    Suspensions,
)
from statewright.sdk.tokens import Token, make_token_source, read_token


class Models(Subject):
    """Models: schemas of entities."""

    list = build_blocking(models.list_all)
    import_sample = build_blocking(models.import_sample)
    import_schema = build_blocking(models.import_schema)
    export_schema = build_blocking(models.export_schema)
    lock = build_blocking(models.lock)
    unlock = build_blocking(models.unlock)
    set_change_level = build_blocking(models.set_change_level)
    set_unique_keys = build_blocking(models.set_unique_keys)
    validate = build_blocking(models.validate)
    delete = build_blocking(models.delete)


class AsyncModels(Subject):
    """Models: schemas of entities."""

    list = build_awaited(models.list_all)
    import_sample = build_awaited(models.import_sample)
    import_schema = build_awaited(models.import_schema)
    export_schema = build_awaited(models.export_schema)
    lock = build_awaited(models.lock)
    unlock = build_awaited(models.unlock)
    set_change_level = build_awaited(models.set_change_level)
    set_unique_keys = build_awaited(models.set_unique_keys)
    validate = build_awaited(models.validate)
    delete = build_awaited(models.delete)


class Workflows(Subject):
    """Workflows of models."""

    import_ = build_blocking(models.import_)
    export = build_blocking(models.export)


class AsyncWorkflows(Subject):
    """Workflows of models."""

    import_ = build_awaited(models.import_)
    export = build_awaited(models.export)


class Searches(Subject):
    """Searches as jobs, whose results are kept."""

    start = build_blocking(searching.start)
    status = build_blocking(searching.status)
    wait = build_blocking_script(searching.wait)
    results = build_iterator(searching.results)
    cancel = build_blocking(searching.cancel)


class AsyncSearches(Subject):
    """Searches as jobs, whose results are kept."""

    start = build_awaited(searching.start)
    status = build_awaited(searching.status)
    wait = build_awaited_script(searching.wait)
    results = build_async_iterator(searching.results)
    cancel = build_awaited(searching.cancel)


class Messages(Subject):
    """Edge messages."""

    send = build_blocking(messages.send)
    get = build_blocking(messages.get)
    delete = build_blocking(messages.delete)


class AsyncMessages(Subject):
    """Edge messages."""

    send = build_awaited(messages.send)
    get = build_awaited(messages.get)
    delete = build_awaited(messages.delete)


class Steps(Subject):
    """The JSON step engine: definitions, instances, tasks of people."""

    upload = build_blocking(steps.upload)
    definition = build_blocking(steps.definition)
    definitions = build_iterator(steps.definitions)
    start = build_blocking(steps.start)
    instance = build_blocking(steps.instance)
    instances = build_iterator(steps.instances)
    wait = build_blocking_script(steps.wait)
    history = build_blocking(steps.history)
    signal = build_blocking(steps.signal)
    retry = build_blocking(steps.retry)
    cancel = build_blocking(steps.cancel)
    user_tasks = build_iterator(steps.user_tasks)
    complete_task = build_blocking(steps.complete_task)


class AsyncSteps(Subject):
    """The JSON step engine: definitions, instances, tasks of people."""

    upload = build_awaited(steps.upload)
    definition = build_awaited(steps.definition)
    definitions = build_async_iterator(steps.definitions)
    start = build_awaited(steps.start)
    instance = build_awaited(steps.instance)
    instances = build_async_iterator(steps.instances)
    wait = build_awaited_script(steps.wait)
    history = build_awaited(steps.history)
    signal = build_awaited(steps.signal)
    retry = build_awaited(steps.retry)
    cancel = build_awaited(steps.cancel)
    user_tasks = build_async_iterator(steps.user_tasks)
    complete_task = build_awaited(steps.complete_task)


class Flows(Subject):
    """Flows: definitions and instances."""

    upload = build_blocking(flows.upload)
    check = build_blocking(flows.check)
    definition = build_blocking(flows.definition)
    definitions = build_iterator(flows.definitions)
    start = build_blocking(flows.start)
    instance = build_blocking(flows.instance)
    instances = build_iterator(flows.instances)
    wait = build_blocking_script(flows.wait)
    history = build_iterator(flows.history)
    cancel = build_blocking(flows.cancel)
    terminate = build_blocking(flows.terminate)
    restart = build_blocking(flows.restart)
    change = build_blocking(flows.change)
    send_event = build_blocking_script(flows.send_event)
    counter = build_blocking(flows.counter)


class AsyncFlows(Subject):
    """Flows: definitions and instances."""

    upload = build_awaited(flows.upload)
    check = build_awaited(flows.check)
    definition = build_awaited(flows.definition)
    definitions = build_async_iterator(flows.definitions)
    start = build_awaited(flows.start)
    instance = build_awaited(flows.instance)
    instances = build_async_iterator(flows.instances)
    wait = build_awaited_script(flows.wait)
    history = build_async_iterator(flows.history)
    cancel = build_awaited(flows.cancel)
    terminate = build_awaited(flows.terminate)
    restart = build_awaited(flows.restart)
    change = build_awaited(flows.change)
    send_event = build_awaited_script(flows.send_event)
    counter = build_awaited(flows.counter)


class Playbooks(Subject):
    """Playbooks: definitions, executions and their event logs."""

    upload = build_blocking(playbooks.upload)
    check = build_blocking(playbooks.check)
    definition = build_blocking(playbooks.definition)
    definitions = build_iterator(playbooks.definitions)
    start = build_blocking(playbooks.start)
    execution = build_blocking(playbooks.execution)
    executions = build_iterator(playbooks.executions)
    wait = build_blocking_script(playbooks.wait)
    history = build_iterator(playbooks.history)
    events = build_iterator(playbooks.events)
    follow = build_iterator(playbooks.follow)
    get_value = build_blocking(playbooks.get_value)
    patch = build_blocking(playbooks.patch)
    inject = build_blocking(playbooks.inject)
    evaluate = build_blocking(playbooks.evaluate)
    cancel = build_blocking(playbooks.cancel)
    restart = build_blocking(playbooks.restart)


class AsyncPlaybooks(Subject):
    """Playbooks: definitions, executions and their event logs."""

    upload = build_awaited(playbooks.upload)
    check = build_awaited(playbooks.check)
    definition = build_awaited(playbooks.definition)
    definitions = build_async_iterator(playbooks.definitions)
    start = build_awaited(playbooks.start)
    execution = build_awaited(playbooks.execution)
    executions = build_async_iterator(playbooks.executions)
    wait = build_awaited_script(playbooks.wait)
    history = build_async_iterator(playbooks.history)
    events = build_async_iterator(playbooks.events)
    follow = build_async_iterator(playbooks.follow)
    get_value = build_awaited(playbooks.get_value)
    patch = build_awaited(playbooks.patch)
    inject = build_awaited(playbooks.inject)
    evaluate = build_awaited(playbooks.evaluate)
    cancel = build_awaited(playbooks.cancel)
    restart = build_awaited(playbooks.restart)


class _AnyClient(ClientPart):
    """What both clients have in common."""

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


class Client(_AnyClient):
    """Requests that wait in their thread. Safe to use from several threads."""

    create = build_blocking(entities.create)
    create_many = build_blocking(entities.create_many)
    get = build_blocking(entities.get)
    page = build_blocking(entities.page)
    iterate = build_iterator(entities.iterate)
    update = build_blocking(entities.update)
    patch = build_blocking(entities.patch)
    transition = build_blocking(entities.transition)
    transitions = build_blocking(entities.transitions)
    delete = build_blocking(entities.delete)
    delete_matching = build_blocking(entities.delete_matching)
    history = build_blocking(entities.history)
    audit = build_iterator(audit.events)
    search = build_blocking(searching.search)
    search_all = build_iterator(searching.search_all)
    count = build_blocking(statistics.count)
    count_states = build_blocking(statistics.count_states)
    group = build_blocking(statistics.group)
    request = build_blocking(calls.request)
    fetch = build_blocking(calls.fetch)

    @property
    def models(self) -> Models:
        """Models: schemas of entities."""
        return Models(self._session)

    @property
    def workflows(self) -> Workflows:
        """Workflows of models."""
        return Workflows(self._session)

    @property
    def searches(self) -> Searches:
        """Searches as jobs."""
        return Searches(self._session)

    @property
    def messages(self) -> Messages:
        """Edge messages."""
        return Messages(self._session)

    @property
    def steps(self) -> Steps:
        """The JSON step engine."""
        return Steps(self._session)

    @property
    def flows(self) -> Flows:
        """Flows."""
        return Flows(self._session)

    @property
    def playbooks(self) -> Playbooks:
        """Playbooks."""
        return Playbooks(self._session)

    @property
    def ops(self) -> Ops:
        """The operations API: why something waits, who works, what was done."""
        return Ops(self._session)

    @property
    def incidents(self) -> Incidents:
        """Failed work, and doing it again."""
        return Incidents(self._session)

    @property
    def suspensions(self) -> Suspensions:
        """Movement that is stopped at a chosen place."""
        return Suspensions(self._session)

    def close(self) -> None:
        """Ends the connections; a client of a callout leaves them to its node."""
        if self._http is not None:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()


class AsyncClient(_AnyClient):
    """Requests to be awaited, on one event loop."""

    create = build_awaited(entities.create)
    create_many = build_awaited(entities.create_many)
    get = build_awaited(entities.get)
    page = build_awaited(entities.page)
    iterate = build_async_iterator(entities.iterate)
    update = build_awaited(entities.update)
    patch = build_awaited(entities.patch)
    transition = build_awaited(entities.transition)
    transitions = build_awaited(entities.transitions)
    delete = build_awaited(entities.delete)
    delete_matching = build_awaited(entities.delete_matching)
    history = build_awaited(entities.history)
    audit = build_async_iterator(audit.events)
    search = build_awaited(searching.search)
    search_all = build_async_iterator(searching.search_all)
    count = build_awaited(statistics.count)
    count_states = build_awaited(statistics.count_states)
    group = build_awaited(statistics.group)
    request = build_awaited(calls.request)
    fetch = build_awaited(calls.fetch)

    @property
    def models(self) -> AsyncModels:
        """Models: schemas of entities."""
        return AsyncModels(self._session)

    @property
    def workflows(self) -> AsyncWorkflows:
        """Workflows of models."""
        return AsyncWorkflows(self._session)

    @property
    def searches(self) -> AsyncSearches:
        """Searches as jobs."""
        return AsyncSearches(self._session)

    @property
    def messages(self) -> AsyncMessages:
        """Edge messages."""
        return AsyncMessages(self._session)

    @property
    def steps(self) -> AsyncSteps:
        """The JSON step engine."""
        return AsyncSteps(self._session)

    @property
    def flows(self) -> AsyncFlows:
        """Flows."""
        return AsyncFlows(self._session)

    @property
    def playbooks(self) -> AsyncPlaybooks:
        """Playbooks."""
        return AsyncPlaybooks(self._session)

    @property
    def ops(self) -> AsyncOps:
        """The operations API: why something waits, who works, what was done."""
        return AsyncOps(self._session)

    @property
    def incidents(self) -> AsyncIncidents:
        """Failed work, and doing it again."""
        return AsyncIncidents(self._session)

    @property
    def suspensions(self) -> AsyncSuspensions:
        """Movement that is stopped at a chosen place."""
        return AsyncSuspensions(self._session)

    async def close(self) -> None:
        """Ends the connections; a client of a callout leaves them to its node."""
        if self._http is not None:
            await self._http.close_async()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.close()
