"""Edge messages: the list, one of them, new ones, and deleting some (docs/console.md#pages)."""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.console.acts import read_json
from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
)
from statewright.console.pages.listing import build_list
from statewright.console.request import Action, ConsoleRequest, Form, InvalidField, Navigation, Page, Routes
from statewright.console.views.entities import TreeNode, build_tree, fits_page, write_text
from statewright.console.views.page import Confirmation, Crumb, View
from statewright.console.views.records import Message, Written
from statewright.jsonval.codec import decode, encode
from statewright.operations.listings import ListedMessage

ROOT: Final = "/console/messages"
MAX_TICKED: Final = 200
"""Messages that one act deletes: those of the longest page."""


class MessageView(Struct, frozen=True, kw_only=True):
    """One message. ``text`` is None where the payload is too large for a page."""

    id: str
    subject: str
    header: tuple[tuple[str, str], ...]
    metadata: TreeNode
    tree: TreeNode
    text: str | None


async def show_messages(request: ConsoleRequest) -> View:
    """A page of the list."""
    query = {"limit": request.query.size(), "cursor": request.query.get("after") or None}
    [found] = await request.call(build_ops_call("messages", query=query))
    return View(title="Messages", data=build_list(request.query, found.require(), found.read_items(ListedMessage)))


async def show_message(request: ConsoleRequest) -> View:
    """One message with its payload."""
    id_ = request.params["id"]
    [found] = await request.call(build_entity_call("message", id_))
    return await asyncio.to_thread(view_message, id_, found.require())


def view_message(id_: str, found: Reply) -> View:
    """One message from the answer of the API."""
    message = found.read(Message)
    data = MessageView(
        id=id_,
        subject=str(message.header.get("subject", "")),
        header=tuple(
            (name, value if isinstance(value, str) else encode(value).decode())
            for name, value in message.header.items()
            if name != "subject"
        ),
        metadata=build_tree(message.meta_data),
        tree=build_tree(message.content),
        text=write_text(message.content) if fits_page(message.content) else None,
    )
    return View(title=f"Message {id_}", data=data, crumbs=(Crumb("Messages", ROOT),))


def _build_deletion(form: Form) -> ApiCall:
    return build_entity_call("message", form.require("message"), method="DELETE")


async def _confirm_deletion(_request: ConsoleRequest, form: Form) -> Confirmation:
    id_ = form.require("message")
    return Confirmation(
        question=f"Delete message {id_}?",
        details=("Its payload is gone for good.",),
        back=f"{ROOT}{build_path(id_)}",
    )


def _build_new(form: Form) -> ApiCall:
    """Payload and metadata as they were typed, digits and all."""
    payload, metadata = read_json(form, "payload"), read_json(form, "metadata") if form.get("metadata") else b"{}"
    if not isinstance(decode(metadata), dict):
        raise InvalidField("metadata", "is no JSON object")
    body = b'{"payload":%b,"meta-data":%b}' % (payload, metadata)
    return build_entity_call("message", "new", form.require("subject"), method="POST", body=body)


def _follow_new(_form: Form, reply: Reply) -> str:
    stored = next(iter(reply.read_items(Written)), None)
    return f"{ROOT}{build_path(stored.entity_ids[0])}" if stored is not None and stored.entity_ids else ROOT


def _read_ticked(form: Form) -> tuple[str, ...]:
    ids = tuple(dict.fromkeys(form.get_all("message")))
    if not ids:
        raise InvalidField("message", "is ticked at least once")
    if len(ids) > MAX_TICKED:
        raise InvalidField("message", f"is ticked at most {MAX_TICKED} times")
    return ids


def _build_deletion_of_ticked(form: Form) -> ApiCall:
    return build_entity_call("message", method="DELETE", body=encode(list(_read_ticked(form))))


async def _confirm_deletion_of_ticked(_request: ConsoleRequest, form: Form) -> Confirmation:
    count = len(_read_ticked(form))
    return Confirmation(
        question=f"Delete {count} {'message' if count == 1 else 'messages'}?",
        details=("Their payloads are gone for good." if count > 1 else "Its payload is gone for good.",),
        back=ROOT,
    )


def _follow_messages(_form: Form, _reply: Reply) -> str:
    return ROOT


ROUTES: Final[Routes] = (
    Page(
        name="messages",
        path=ROOT,
        show=show_messages,
        navigation=Navigation("Data", "Messages"),
        feature="messages",
    ),
    Page(name="message", path=f"{ROOT}/{{id}}", show=show_message),
    Action(
        name="delete_message",
        label="Delete message",
        build=_build_deletion,
        follow=_follow_messages,
        confirm=_confirm_deletion,
        is_dangerous=True,
    ),
    Action(name="create_message", label="New message", build=_build_new, follow=_follow_new),
    Action(
        name="delete_messages",
        label="Delete messages",
        build=_build_deletion_of_ticked,
        follow=_follow_messages,
        confirm=_confirm_deletion_of_ticked,
        is_dangerous=True,
    ),
)
