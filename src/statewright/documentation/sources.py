"""Which page, or section of one, each topic of help is served from: the very text of the documentation.

The documentation that is installed along with the program, from the same files as in the repository.

A wheel has them below the package; where the sources run in place, they are read from the repository.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Final

from msgspec import Struct

_HEADING: Final = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class PageNotInstalled(LookupError):
    """There is no such page, or it was left out of the installation."""


def find_docs() -> Traversable:
    """The folder of the documentation. Raises :class:`PageNotInstalled`."""
    return _find_folder("docs", "glossary.md")


def find_protos() -> Traversable:
    """The folder of the ``.proto`` sources. Raises :class:`PageNotInstalled`."""
    return _find_folder("proto", "cloudevents.proto")


def _find_folder(name: str, landmark: str) -> Traversable:
    """The folder of the package or of the repository that has the file ``landmark``."""
    for place in (files("statewright"), Path(__file__).resolve().parents[3]):
        if (place / name / landmark).is_file():
            return place / name
    raise PageNotInstalled(f"the files of {name} are not installed")


@cache
def read_page(name: str) -> str:
    """The text of a page by its path below ``docs``, ``reference/workflows.md``. Raises :class:`PageNotInstalled`."""
    try:
        return (find_docs() / name).read_text(encoding="utf-8")
    except OSError as missing:
        raise PageNotInstalled(f"there is no page {name}") from missing


def read_title(text: str) -> str:
    """The first heading of a page."""
    found = _HEADING.search(text)
    return found[2] if found else ""


def extract_section(text: str, heading: str) -> str:
    """The section of a page under that heading, its subsections included. Raises :class:`PageNotInstalled`."""
    fenced = [fence.span() for fence in _FENCE.finditer(text)]
    headings = [
        found for found in _HEADING.finditer(text) if not any(start < found.start() < end for start, end in fenced)
    ]
    for index, found in enumerate(headings):
        if found[2] == heading:
            level = len(found[1])
            end = next((later.start() for later in headings[index + 1 :] if len(later[1]) <= level), len(text))
            return text[found.start() : end].strip() + "\n"
    raise PageNotInstalled(f'the page has no section "{heading}"')


class Source(Struct, frozen=True):
    """A page below ``docs``, or the section of it under a heading."""

    page: str
    section: str = ""

    def read_text(self) -> str:
        text = read_page(self.page)
        return extract_section(text, self.section) if self.section else text


_AUTH: Final = "reference/authentication.md"
_SERVICE: Final = "reference/service.md"
_OPERATIONS: Final = "reference/operations.md"

SOURCES: Final[Mapping[str, Source]] = {
    "auth": Source(_AUTH),
    "auth.clients": Source(_AUTH, "Clients"),
    "auth.oidc": Source("reference/oidc.md"),
    "auth.tokens": Source(_AUTH, "Token endpoint"),
    "auth.trusted-keys": Source(_AUTH, "Trusted keys"),
    "cli": Source("reference/cli.md"),
    "cli.health": Source("help/cli-health.md"),
    "cli.help": Source("help/cli-help.md"),
    "cli.init": Source("reference/cli.md", "init"),
    "cli.migrate": Source("help/cli-migrate.md"),
    "cli.serve": Source("help/cli-serve.md"),
    "client": Source("guides/client.md"),
    "cluster": Source("cluster.md"),
    "config": Source("reference/settings.md"),
    "config.schema": Source("help/config-schema.md"),
    "crud": Source("reference/entities.md"),
    "decisions": Source("reference/decisions.md"),
    "egress": Source("reference/egress.md"),
    "errors": Source("reference/errors.md"),
    "flows": Source("reference/flows.md"),
    "glossary": Source("glossary.md"),
    "grpc": Source("reference/grpc.md"),
    "helm": Source("help/helm.md"),
    "models": Source("reference/models.md"),
    "ops": Source(_OPERATIONS),
    "ops.audit": Source(_OPERATIONS, "Audit"),
    "ops.bulk": Source(_OPERATIONS, "Bulk jobs"),
    "ops.events-out": Source(_OPERATIONS, "Events out"),
    "ops.subscriptions": Source(_OPERATIONS, "Subscriptions"),
    "ops.changes": Source(_OPERATIONS, "Changes"),
    "ops.check": Source(_OPERATIONS, "Checking workflows"),
    "ops.count": Source(_OPERATIONS, "Counting"),
    "ops.events": Source(_OPERATIONS, "Events of runs"),
    "ops.explain": Source(_OPERATIONS, "Explain"),
    "ops.idempotency": Source(_OPERATIONS, "Idempotent requests"),
    "ops.idle": Source(_OPERATIONS, "Idle entities"),
    "ops.incidents": Source(_OPERATIONS, "Incidents"),
    "ops.instances": Source(_OPERATIONS, "Counts of instances"),
    "ops.members": Source(_OPERATIONS, "Members"),
    "ops.messages": Source(_OPERATIONS, "Messages and search jobs"),
    "ops.nodes": Source(_OPERATIONS, "Nodes"),
    "ops.queues": Source(_OPERATIONS, "Queues"),
    "ops.rates": Source(_OPERATIONS, "Rates"),
    "ops.restore": Source(_OPERATIONS, "Restoring a version"),
    "ops.revisions": Source(_OPERATIONS, "Revisions of workflows"),
    "ops.search": Source(_OPERATIONS, "Searching page by page"),
    "ops.settings": Source(_OPERATIONS, "Settings"),
    "ops.simulate": Source(_OPERATIONS, "Simulating workflows"),
    "ops.suspensions": Source(_OPERATIONS, "Suspensions"),
    "ops.transactions": Source(_OPERATIONS, "Transactions"),
    "ops.versions": Source(_OPERATIONS, "Versions"),
    "ops.wait": Source(_OPERATIONS, "Wait"),
    "playbooks": Source("reference/playbooks.md"),
    "playbooks.running": Source("reference/executions.md"),
    "predicates": Source("reference/conditions.md"),
    "quickstart": Source("help/quickstart.md"),
    "run": Source(_SERVICE),
    "sdk": Source("sdk.md"),
    "search": Source("reference/search.md"),
    "steps": Source("reference/steps.md"),
    "telemetry": Source("help/telemetry.md"),
    "telemetry.events": Source("reference/events.md"),
    "telemetry.metrics": Source("reference/metrics.md"),
    "telemetry.traces": Source("reference/traces.md"),
    "transactions": Source("transactions.md"),
    "workflows": Source("reference/workflows.md"),
    "workflows.retries": Source("reference/workflows.md", "Retries"),
    "guides": Source("help/guides.md"),
    "guides.authentication": Source("guides/authentication.md"),
    "guides.backup": Source("guides/backup.md"),
    "guides.flows": Source("guides/flows.md"),
    "guides.nodes": Source("guides/nodes.md"),
    "guides.operating": Source("guides/operating.md"),
    "guides.operations": Source("guides/operations.md"),
    "guides.postgresql": Source("guides/postgresql.md"),
    "guides.public-playbooks": Source("guides/public-playbooks.md"),
    "guides.tools": Source("guides/tools.md"),
    "guides.tls-and-proxies": Source("guides/tls-and-proxies.md"),
    "guides.upgrade": Source("guides/upgrade.md"),
}

APPENDED: Final[Mapping[str, Source]] = {
    "account": Source(_AUTH, "Account"),
    "admin": Source(_SERVICE, "Log level"),
    "analytics": Source("reference/entities.md", "Grouped statistics"),
    "audit": Source("reference/workflows.md", "Audit"),
}
"""Sections that follow the list of operations of a topic which has no page of its own."""

_LINK: Final = re.compile(r"\]\(((?:\.\./|[\w-]+/)*[\w-]+\.md)")
_BY_PAGE: Final = {source.page: topic for topic, source in SOURCES.items() if not source.section}


def list_linked_topics(page: str, text: str) -> tuple[str, ...]:
    """The topics of the pages that the text of a page links to, in order."""
    linked = {normpath(join(dirname(page), link)) for link in _LINK.findall(text)}
    return tuple(sorted({_BY_PAGE[name] for name in linked if name in _BY_PAGE}))


def read_documents() -> Iterator[tuple[str, str, str, Source]]:
    """Every topic that is a page: id, title, text and source."""
    for topic, source in SOURCES.items():
        text = source.read_text()
        yield topic, read_title(text), text, source


_CODES: Final = re.compile(r"`[A-Z0-9_]+`(?:, `[A-Z0-9_]+`)*")


def list_error_rows() -> dict[str, list[tuple[str, str, str]]]:
    """What ``docs/reference/errors.md`` says of each code: status, when, and properties, in as many rows as it has."""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for line in read_page("reference/errors.md").splitlines():
        codes, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or not _CODES.fullmatch(codes):
            continue
        status, when, properties = (*cells, "", "", "")[:3]
        for code in re.findall(r"[A-Z0-9_]+", codes):
            rows.setdefault(code, []).append((status, when, properties))
    return rows
