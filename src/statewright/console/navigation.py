"""The links at the side: those of the pages that exist and that the viewer's service has."""

from collections.abc import Iterable
from typing import Final

from statewright.console.route import Group, Page
from statewright.console.viewer import Viewer
from statewright.console.views.page import NavigationEntry, NavigationGroup

GROUPS: Final[tuple[Group, ...]] = ("Data", "Processes", "Work", "System")

ORDER: Final[tuple[str, ...]] = (
    *("home", "models", "entities", "messages"),
    *("definitions", "instances", "flows", "playbooks", "schedules"),
    *("tasks", "incidents", "workers", "bulk", "searches"),
    *("events", "audit", "admin", "help"),
)
"""Names of pages from top to bottom; others come behind."""


def build_navigation(pages: Iterable[Page], viewer: Viewer, current: str) -> tuple[NavigationGroup, ...]:
    """The groups that have entries. ``current`` is the path that is shown."""
    entries: dict[Group, list[NavigationEntry]] = {group: [] for group in GROUPS}
    for page in sorted(pages, key=_rank):
        wanted = page.navigation
        if wanted is None or not is_offered(page, viewer) or not viewer.has(wanted.role):
            continue
        inside = current == page.path or (page.path != "/console/" and current.startswith(f"{page.path}/"))
        entries[wanted.group].append(
            NavigationEntry(wanted.label, page.path, is_current=inside, key=wanted.key, badge=wanted.badge)
        )
    return tuple(NavigationGroup(group, tuple(listed)) for group, listed in entries.items() if listed)


def is_offered(page: Page, viewer: Viewer) -> bool:
    """Whether the service has what a page needs."""
    return page.feature is None or page.feature in viewer.features


def _rank(page: Page) -> int:
    return ORDER.index(page.name) if page.name in ORDER else len(ORDER)
