"""Tasks of people: what is open, one of them, and completing it (docs/console.md#pages)."""

from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from statewright.console.acts import read_json, send
from statewright.console.calls import ApiCall, Reply, build_path, build_root_call
from statewright.console.pages.incidents import BadgeView, format_badge
from statewright.console.pages.instances import build_instance_path
from statewright.console.pages.listing import Filter, build_numbered_list
from statewright.console.process_languages import STEPS, ProcessLanguage, find_language_of
from statewright.console.request import (
    Action,
    Form,
    InvalidField,
    Navigation,
    Page,
    PageContext,
    Query,
    Routes,
    build_part,
)
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Crumb, View
from statewright.console.views.records import OpenTask
from statewright.jsonval.codec import decode, encode

ROOT: Final = "/console/tasks"
NEXT: Final = f"{ROOT}/next"
CRUMB: Final = Crumb("Tasks", ROOT)
MAX_SEARCHED: Final = 1_000
"""Open tasks among which one is looked for: the API reads no single one."""
AGES: Final = (("", "any"), ("3600", "an hour"), ("86400", "a day"), ("604800", "a week"))
FILTERS: Final = tuple(map(Filter, ("language", "definition", "jobType", "assignee", "group", "age")))


class TaskRow(Struct, frozen=True):
    """An open task in the list; ``href`` leads to it, among those that are filtered likewise."""

    task: OpenTask
    href: str

    @property
    def title(self) -> str:
        """What is to be done, as its author says it, else the step that it is of."""
        return self.task.title or self.task.step_id

    @property
    def language(self) -> ProcessLanguage | None:
        """That of its definition."""
        return find_language_of(self.task.language)


class TaskView(Struct, frozen=True, kw_only=True):
    """One task with its form; ``row`` is None where it is not open any more."""

    id: str
    row: TaskRow | None
    payload: TreeNode | None
    form: TreeNode | None
    """What its author says of the answer."""
    later: str | None
    """The address of the task after it."""
    kept: tuple[tuple[str, str], ...]
    """The filters of the list that it is one of: the next task is one of the same."""
    typed: str = "{}"
    error: str = ""


async def show_tasks(request: PageContext) -> View:
    """A page of the inbox."""
    [found] = await request.call(_list_tasks(request.query, request.query.page(), request.query.size()))
    return view_tasks(request.query, found, request.path)


def view_tasks(query: Query, found: Reply, path: str) -> View:
    """The inbox from the answer of the API."""
    rows = [_build_task_row(task, query) for task in found.pick_items(OpenTask)]
    data = build_numbered_list(query, found, rows, filters=FILTERS, retry=path + query.change())
    return View(title="Tasks", data=data, status=200 if found.is_ok else found.status)


async def show_task(request: PageContext) -> View:
    """One open task."""
    [found] = await request.call(_list_tasks(request.query, 0, MAX_SEARCHED))
    return view_task(request.params["id"], request.query, found.require())


def view_task(id_: str, query: Query, found: Reply, *, typed: str = "{}", error: str = "", instance: str = "") -> View:
    """One task, from the list that it is in. ``instance`` is that to whose page its form leads back."""
    rows = [_build_task_row(each, query) for each in found.pick_items(OpenTask)]
    place = next((place for place, row in enumerate(rows) if row.task.id == id_), None)
    row = None if place is None else rows[place]
    task = None if row is None else row.task
    later = None if place is None or place + 1 >= len(rows) else rows[place + 1].href
    data = TaskView(
        id=id_,
        row=row,
        payload=None if task is None or task.payload is UNSET else build_tree(task.payload),
        form=None if task is None or task.form is UNSET else build_tree(task.form),
        later=later,
        kept=(*_keep(query), *((("instance", instance),) if instance else ())),
        typed=typed,
        error=error,
    )
    status = 404 if place is None else 400 if error else 200
    return View(
        title=f"Task {(row.title if row is not None else '') or id_}", data=data, crumbs=(CRUMB,), status=status
    )


async def open_next_task(request: PageContext) -> View:
    """The address of the task that has waited longest, else of the list, which says that there is none."""
    [found] = await request.call(_list_tasks(request.query, 0, 1))
    rows = [_build_task_row(item, request.query) for item in found.pick_items(OpenTask)]
    done = request.query.get("done") or None
    target = rows[0].href if rows else ROOT + Query(_keep(request.query)).change()
    separator = "&" if "?" in target else "?"
    return View(redirect=f"{target.rstrip('?')}{separator}done={done}" if done == "complete_user_task" else target)


async def show_task_badge(request: PageContext) -> View:
    """How many tasks are open, for the navigation."""
    [found] = await request.call(build_root_call("v1", "user-tasks", query={"pageSize": 1}))
    return View(data=BadgeView(format_badge(found.require().total)), template="parts/badge.html")


def _list_tasks(query: Query, page: int, size: int) -> ApiCall:
    age = query.get_choice("age", tuple(value for value, _ in AGES))
    return build_root_call(
        "v1",
        "user-tasks",
        query={
            "language": query.get("language") or None,
            "definitionId": query.get("definition") or None,
            "jobType": query.get("jobType") or None,
            "assignee": query.get("assignee") or None,
            "group": query.get("group") or None,
            "olderThanSeconds": age or None,
            "page": page,
            "pageSize": size,
        },
    )


def _keep(query: Query) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, query.get(each.name)) for each in FILTERS if query.get(each.name))


def _build_task_row(task: OpenTask, query: Query) -> TaskRow:
    kept = _keep(query)
    return TaskRow(task, f"{ROOT}{build_path(task.id)}{Query(kept).change() if kept else ''}")


def _read_completion(form: Form) -> bytes:
    """A result as it was typed, so that numbers keep their digits."""
    typed = read_json(form, "variables")
    result = decode(typed)
    takes_arrays = form.get("taskLanguage") not in ("", STEPS.name)
    if not isinstance(result, dict) and not (takes_arrays and isinstance(result, list)):
        raise InvalidField("variables", "is no JSON object or array" if takes_arrays else "is no JSON object")
    member = b"variables" if isinstance(result, dict) else b"result"
    return b'{"%b":%b,"completedBy":%b}' % (member, typed, encode(form.get("completedBy")))


def _follow_next(form: Form, _reply: Reply) -> str:
    """Back to the instance from whose page it was completed, else to the task that comes next."""
    if form.get("instance"):
        return build_instance_path(form.get("instance"))
    kept = _keep(Query(form.pairs))
    return NEXT + (Query(kept).change() if kept else "")


async def _show_again(request: PageContext, form: Form, invalid: InvalidField) -> View:
    """The form with what was typed, and the message at its field."""
    query = Query(form.pairs)
    [found] = await request.call(_list_tasks(query, 0, MAX_SEARCHED))
    view = view_task(
        form.require("task"),
        query,
        found.require(),
        typed=form.get("variables"),
        error=f"This {invalid.reason}.",
        instance=form.get("instance"),
    )
    return replace(view, template="pages/task.html")


ROUTES: Final[Routes] = (
    Page(
        name="tasks",
        path=ROOT,
        show=show_tasks,
        navigation=Navigation("Work", "Tasks", "t", badge="/console/part/tasks/count"),
    ),
    Page(name="next_task", path=NEXT, show=open_next_task, is_file=True),
    Page(name="task", path=f"{ROOT}/{{id}}", show=show_task),
    build_part("task_badge", "/tasks/count", show_task_badge),
    Action(
        "complete_user_task",
        "Complete",
        send("POST", "/v1/user-tasks/{task}/complete", _read_completion),
        _follow_next,
        show_invalid=_show_again,
    ),
)
