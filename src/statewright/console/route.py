"""What a row of the table of routes says (docs/console.md#how-to-add-a-page)."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply
from statewright.console.request import ConsoleRequest, Form, InvalidField
from statewright.console.views.page import Confirmation, View

Group = Literal["Data", "Processes", "Work", "System"]

OPERATOR: Final = "ROLE_OPERATOR"
ADMIN: Final = "ROLE_ADMIN"

Show: TypeAlias = Callable[[ConsoleRequest], Awaitable[View]]


class Navigation(Struct, frozen=True):
    """An entry of the navigation. ``key`` is pressed after ``g``; ``badge`` is the path of the part with its number;
    ``role`` is the one that the page is of use to, None: everybody.
    """

    group: Group
    label: str
    key: str | None = None
    badge: str | None = None
    role: str | None = None


class Page(Struct, frozen=True, kw_only=True):
    """A page, or with ``is_part`` a piece of one, at a path of its own below ``/console/part/``.

    Its template is ``pages/<name>.html``, that of a part ``parts/<name>.html``. ``show`` loads and makes the view; it
    raises ``CallFailed`` where the page can say nothing else.
    """

    name: str
    path: str
    show: Show
    navigation: Navigation | None = None
    feature: str | None = None
    """The feature of the operations API that it needs: without it there is no such page."""
    is_part: bool = False
    is_file: bool = False
    """Whether it gives a file in place of a page; then it has no template."""
    is_public: bool = False
    """Whether it is shown without a login."""

    @property
    def template(self) -> str:
        """Where its template is, below ``templates``."""
        return f"{'parts' if self.is_part else 'pages'}/{self.name}.html"


def build_part(name: str, path: str, show: Show, *, feature: str | None = None) -> Page:
    """The row of a part; ``path`` is that below ``/console/part``."""
    return Page(name=name, path=f"/console/part{path}", show=show, feature=feature, is_part=True)


class Action(Struct, frozen=True, kw_only=True):
    """What a form does: one call of the API.

    ``build`` makes the call from the fields, and raises ``InvalidField``. ``follow`` says where the browser goes
    then. ``confirm`` loads what is asked before; without it, the form acts at once.
    """

    name: str
    label: str
    build: Callable[[Form], ApiCall]
    follow: Callable[[Form, Reply], str]
    confirm: Callable[[ConsoleRequest, Form], Awaitable[Confirmation]] | None = None
    show: Callable[[ConsoleRequest, Form, Reply], Awaitable[View | None]] | None = None
    """Makes a page of the reply in place of following it, whether the call succeeded or not: a check, a secret that is
    shown once. Its template is ``pages/<name>.html``; None: as without.
    """
    show_invalid: Callable[[ConsoleRequest, Form, InvalidField], Awaitable[View]] | None = None
    """Makes the page of the form again, with the message at the field that cannot be used; ``template`` is needed."""
    role: str | None = None
    """Who may: one role of the API, or None for whoever may read."""
    is_dangerous: bool = False

    @property
    def path(self) -> str:
        """Where its form is sent."""
        return f"/console/do/{self.name}"


Routes: TypeAlias = "tuple[Page | Action, ...]"
