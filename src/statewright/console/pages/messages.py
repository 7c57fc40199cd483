"""Edge messages: the list, one of them, new ones, and deleting some (docs/console.md#pages)."""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.console.acts import ask, lead_to, read_json, send
from statewright.console.calls import Reply, build_entity_call, build_ops_call, build_path, pick_members
from statewright.console.pages.listing import build_list
from statewright.console.request import Action, Form, InvalidField, Navigation, Page, PageContext, Routes
from statewright.console.views.entities import Document, TreeNode, build_document, build_tree
from statewright.console.views.page import Crumb, View
from statewright.console.views.records import Message, MessageHeader
from statewright.jsonval.codec import decode, encode
from statewright.operations.entity_answers import WrittenTransaction
from statewright.operations.listings import ListedMessage

ROOT: Final = "/console/messages"
MAX_TICKED: Final = 200
"""Messages that one act deletes: those of the longest page."""


class MessageView(Struct, frozen=True, kw_only=True):
    """One message."""

    id: str
    subject: str
    header: tuple[tuple[str, str], ...]
    metadata: TreeNode
    payload: Document


async def show_messages(request: PageContext) -> View:
    """A page of the list."""
    found = await request.call_one(build_ops_call("messages", query=request.query.read_page()))
    return View(title="Messages", data=build_list(request.query, found.require(), found.read_items(ListedMessage)))


async def show_message(request: PageContext) -> View:
    """One message with its payload."""
    id_ = request.params["id"]
    message = (await request.call_one(build_entity_call("message", id_))).read(Message)
    return await asyncio.to_thread(view_message, id_, message)


def view_message(id_: str, message: Message) -> View:
    """One message from the answer of the API."""
    data = MessageView(
        id=id_,
        subject=str(pick_members(message.header, MessageHeader).subject),
        header=tuple(
            (name, value if isinstance(value, str) else encode(value).decode())
            for name, value in message.header.items()
            if name != "subject"
        ),
        metadata=build_tree(message.meta_data),
        payload=build_document(message.content),
    )
    return View(title=f"Message {id_}", data=data, crumbs=(Crumb("Messages", ROOT),))


def _write_new(form: Form) -> bytes:
    """Payload and metadata as they were typed, digits and all."""
    payload, metadata = read_json(form, "payload"), read_json(form, "metadata") if form.get("metadata") else b"{}"
    if not isinstance(decode(metadata), dict):
        raise InvalidField("metadata", "is no JSON object")
    return b'{"payload":%b,"meta-data":%b}' % (payload, metadata)


def _follow_new(_form: Form, reply: Reply) -> str:
    stored = next(iter(reply.read_items(WrittenTransaction)), None)
    return f"{ROOT}{build_path(stored.entity_ids[0])}" if stored is not None and stored.entity_ids else ROOT


def _read_ticked(form: Form) -> tuple[str, ...]:
    ids = tuple(dict.fromkeys(form.get_all("message")))
    if not ids:
        raise InvalidField("message", "is ticked at least once")
    if len(ids) > MAX_TICKED:
        raise InvalidField("message", f"is ticked at most {MAX_TICKED} times")
    return ids


def _ask_about_ticked(form: Form) -> str:
    count = len(_read_ticked(form))
    return f"Delete {count} {'message' if count == 1 else 'messages'}?"


def _tell_loss(form: Form) -> str:
    return "Their payloads are gone for good." if len(_read_ticked(form)) > 1 else "Its payload is gone for good."


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
        "delete_message",
        "Delete message",
        send("DELETE", "/message/{message}"),
        lead_to(ROOT),
        ask("Delete message {message}?", "Its payload is gone for good.", back=f"{ROOT}/{{message}}"),
        is_dangerous=True,
    ),
    Action("create_message", "New message", send("POST", "/message/new/{subject}", _write_new), _follow_new),
    Action(
        "delete_messages",
        "Delete messages",
        send("DELETE", "/message", lambda form: encode([*_read_ticked(form)])),
        lead_to(ROOT),
        ask(_ask_about_ticked, _tell_loss, back=ROOT),
        is_dangerous=True,
    ),
)
