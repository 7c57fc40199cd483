"""The help endpoints (spec/auth-and-operations.md §23), which need no credentials."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from msgspec.structs import replace

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Scope
from statewright.api.http.help_topics import SCHEMA, Action, Topic, build_version, topics
from statewright.api.http.problems import problem
from statewright.failures import BadRequest, HelpTopicNotFound, MethodNotAllowed

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
_PARAGRAPH = re.compile(r"\n\s*\n")
_SECTION = re.compile(r"^## +(.+?) *\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Help:
    """The pages of this program, below ``prefix``: the tree of them all, one by its id, or raw output of one."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._topics: Final = {topic.id: topic for topic in topics()}

    def answer(self, scope: Scope) -> Answer:
        """What a request below the prefix gets. Raises ``BadRequest``, ``HelpTopicNotFound``."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = unquote(raw.decode("latin-1").partition("?")[0])
        if scope["method"] != "GET":
            return replace(problem(MethodNotAllowed(), path), headers=((b"allow", b"GET"),))
        name = path.removeprefix(self._prefix)
        return self._named(name[1:]) if name else self._tree()

    def _tree(self) -> Answer:
        found = [self._descriptor(topic) for topic in self._topics.values()]
        return Answer(json_body({"schema": SCHEMA, "version": build_version(), "topics": found}))

    def _named(self, name: str) -> Answer:
        parts = re.split(r"[./]", name)
        if not _NAME.fullmatch(name) or "" in parts:
            raise BadRequest(f"{name!r} is no help topic")
        topic = self._topics.get(".".join(parts))
        if topic is not None:
            return Answer(json_body(self._descriptor(topic)))
        action = self._action(parts)
        if action is None:
            raise HelpTopicNotFound(f"no such help topic: {name}")
        return Answer(action.output(), media_type=action.media_type)

    def _action(self, parts: Sequence[str]) -> Action | None:
        topic = self._topics.get(".".join(parts[:-1]))
        return None if topic is None else topic.actions.get(parts[-1])

    def _descriptor(self, topic: Topic) -> dict[str, object]:
        sections = [{"name": name, "body": body.strip()} for name, body in _SECTION.findall(topic.body)]
        children = [other for other in self._topics if other.rpartition(".")[0] == topic.id]
        descriptor: dict[str, object] = {
            "topic": topic.id,
            "path": topic.id.split("."),
            "title": topic.title,
            "synopsis": _synopsis(topic.body),
            "body": topic.body,
            "sections": sections,
            "see_also": topic.see_also,
            "stability": "stable",
            "actions": tuple(topic.actions),
        }
        return descriptor | {"children": children} if children else descriptor


def _synopsis(body: str) -> str:
    """The first paragraph of the section that describes, else of the page."""
    described = dict(_SECTION.findall(body)).get("DESCRIPTION", body)
    return _PARAGRAPH.split(described.strip(), maxsplit=1)[0]
