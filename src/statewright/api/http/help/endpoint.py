"""What a request below the help prefix is answered: the tree of all pages, one by its id, or raw output of one."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from msgspec.structs import replace

from statewright.api.http.asgi import Scope
from statewright.api.http.errors import build_problem
from statewright.api.http.help.topics import SCHEMA, Action, Topic, build_topics, read_version
from statewright.api.http.response import Response, encode_json
from statewright.failures import BadRequest, HelpTopicNotFound, MethodNotAllowed

MARKDOWN: Final = "text/markdown; charset=utf-8"

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_SECTION: Final = re.compile(r"^## +(.+?) *\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_TITLE: Final = re.compile(r"\A# [^\n]*\n")


class Help:
    """The pages of this program, below ``prefix``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._topics: Final = {topic.id: topic for topic in build_topics()}
        self._tree: bytes | None = None

    def answer(self, scope: Scope) -> Response:
        """What a request below the prefix gets. Raises ``BadRequest``, ``HelpTopicNotFound``."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = unquote(raw.decode("latin-1").partition("?")[0])
        if scope["method"] not in {"GET", "HEAD"}:
            context_path = self._prefix.removesuffix("/help")
            refused = build_problem(MethodNotAllowed(), path, context_path=context_path)
            return replace(refused, headers=((b"allow", b"GET"),))
        name = path.removeprefix(self._prefix)
        return self._find_topic(name[1:]) if name else self._list_topics()

    def _list_topics(self) -> Response:
        if self._tree is None:
            found = list(self.describe_topics().values())
            self._tree = encode_json({"schema": SCHEMA, "version": read_version(), "topics": found})
        return Response(self._tree)

    def describe_topics(self) -> dict[str, dict[str, object]]:
        """The descriptors of all pages by id, parents before children."""
        return {topic.id: self._describe_topic(topic) for topic in self._topics.values()}

    def run_action(self, parts: Sequence[str]) -> bytes | None:
        """The raw output that the last part names, of the topic that is named by the others; None: there is none."""
        action = self._find_action(parts)
        return None if action is None else action.output()

    def _find_topic(self, name: str) -> Response:
        parts = re.split(r"[./]", name)
        if not _NAME.fullmatch(name) or "" in parts:
            raise BadRequest(f"{name!r} is no help topic")
        topic = self._topics.get(".".join(parts))
        if topic is not None:
            return Response(encode_json(self._describe_topic(topic)))
        action = self._find_action(parts)
        if action is not None:
            return Response(action.output(), media_type=action.media_type)
        return self._find_form(name, parts)

    def _find_form(self, name: str, parts: Sequence[str]) -> Response:
        """A page as ``<topic>.md``, its text alone, or ``<topic>.json``. Raises ``HelpTopicNotFound``."""
        topic = self._topics.get(".".join(parts[:-1]))
        if topic is not None and name.endswith(".md"):
            return Response(topic.body.encode(), media_type=MARKDOWN)
        if topic is not None and name.endswith(".json"):
            return Response(encode_json(self._describe_topic(topic)))
        raise HelpTopicNotFound(f"no such help topic: {name}")

    def _find_action(self, parts: Sequence[str]) -> Action | None:
        topic = self._topics.get(".".join(parts[:-1]))
        return None if topic is None else topic.actions.get(parts[-1])

    def _describe_topic(self, topic: Topic) -> dict[str, object]:
        sections = [{"name": name, "body": body.strip()} for name, body in _SECTION.findall(topic.body)]
        children = [other for other in self._topics if other.rpartition(".")[0] == topic.id]
        descriptor: dict[str, object] = {
            "topic": topic.id,
            "path": topic.id.split("."),
            "title": topic.title,
            "synopsis": _extract_synopsis(topic.body),
            "body": topic.body,
            "sections": sections,
            "see_also": [other for other in topic.see_also if other in self._topics and other != topic.id],
            "stability": topic.stability,
            "actions": tuple(topic.actions),
        }
        return descriptor | {"children": children} if children else descriptor


def _extract_synopsis(body: str) -> str:
    """The first paragraph of the section that describes, else of the page."""
    described = dict(_SECTION.findall(body)).get("DESCRIPTION") or _TITLE.sub("", body)
    return _PARAGRAPH.split(described.strip(), maxsplit=1)[0]
