"""What the operations of all process languages have in common: calls below ``/v1``, records, lists, waits."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Call,
    Operation,
    Page,
    Query,
    Script,
    ask,
    build_call,
    build_query,
    read_object,
)
from statewright.sdk.outcomes import encode_json

RecordT = TypeVar("RecordT")
InstanceT = TypeVar("InstanceT")
DefinitionT = TypeVar("DefinitionT")
LineT = TypeVar("LineT")

_TIMES: Final = {"started": "startedAt", "completed": "completedAt", "ended": "endedAt", "created": "createdAt"}


def rename_members(**otherwise: str) -> Callable[[str], str]:
    """How records name their members: as the service does, in camel case, but for those named here and for times."""
    names = {**_TIMES, **otherwise}

    def rename(name: str) -> str:
        first, *others = name.split("_")
        return names.get(name) or first + "".join(map(str.capitalize, others))

    return rename


def to_record(value: JsonValue, type_: type[RecordT]) -> RecordT:
    """A part of an answer as a record; what is null or absent is as the record has it otherwise."""
    members = {name: member for name, member in value.items() if member is not None} if isinstance(value, dict) else {}
    return msgspec.convert(members, type_)


class Reading(Struct, Generic[RecordT], frozen=True):
    """How a record of an answer is read."""

    convert: Callable[[JsonValue], RecordT]

    def read_one(self, body: bytes) -> RecordT:
        """The record that an answer is."""
        return self.convert(decode(body))

    def read_items(self, body: bytes) -> list[RecordT]:
        """Those that an answer lists."""
        return self.read_list(body)[0]

    def read_list(self, body: bytes) -> tuple[list[RecordT], int]:
        """The same, and how many there are on all pages."""
        document = read_object(body)
        items, total = document.get("items"), document.get("total")
        listed = [self.convert(item) for item in items] if isinstance(items, list) else []
        return listed, total if isinstance(total, int) else len(listed)


def read_as(type_: type[RecordT]) -> Reading[RecordT]:
    """Records whose members are those of the answer."""
    return Reading(partial(to_record, type_=type_))


def build_process_call(
    name: str,
    method: str,
    path: str,
    *target: str,
    query: Query = (),
    members: Mapping[str, object] | None = None,
    headers: Mapping[str, str] = {},
) -> Call:
    """A request below ``/v1``, with an object as its body."""
    body = None if members is None else encode_json(dict(members))
    return build_call(name, method, f"/v1{path}", *target, query=query, headers=headers, body=body, at_root=True)


def list_pages(
    name: str,
    path: str,
    reading: Reading[RecordT],
    *target: str,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
    filters: Mapping[str, "str | int | None"] = {},
) -> Script[Page[RecordT]]:
    """A page of a list, and those after it."""
    query = build_query(**filters, page=number, pageSize=size)
    call = build_process_call(name, "GET", path, *target, query=query)
    items, total = yield from ask(Operation(call, reading.read_list))
    if (number + 1) * size >= total:
        return Page(items)
    onward = partial(list_pages, name, path, reading, *target, size=size, number=number + 1, filters=filters)
    return Page(items, cast("Callable[[], Script[Page[RecordT]]]", onward))  # of the same records


_AS_IT_IS: Final[Reading[Any]] = Reading(lambda value: value)


class ProcessPaths(Struct, Generic[DefinitionT, InstanceT, LineT], frozen=True, kw_only=True):
    """Where the definitions and instances of a language are, below ``/v1``, and what their records are. ``definition``
    and ``instance`` are what the names of operations call them.
    """

    definition: str
    instance: str
    definitions_path: str
    instances_path: str
    read_definition: Reading[DefinitionT] = _AS_IT_IS
    read_instance: Reading[InstanceT] = _AS_IT_IS
    read_line: Reading[LineT] = _AS_IT_IS

    def get_definition(self, definition_id: str, version: int | None) -> Operation[JsonObject]:
        """A definition as the service has it, the latest version unless one is named."""
        path = f"{self.definitions_path}/{{}}{'' if version is None else f'/versions/{version}'}"
        return Operation(build_process_call(f"get_{self.definition}", "GET", path, definition_id), read_object)

    def list_definitions(
        self, keyword: str | None, *, size: int = MAX_PAGE_SIZE, number: int = 0
    ) -> Script[Page[DefinitionT]]:
        """Definitions by id, each in its latest version."""
        name = f"list_{self.definition}s"
        return list_pages(
            name, self.definitions_path, self.read_definition, size=size, number=number, filters={"keyword": keyword}
        )

    def start(
        self, target: str, members: Mapping[str, object], headers: Mapping[str, str] = {}
    ) -> Operation[InstanceT]:
        """A new instance; members that are ``None`` or empty texts are left out."""
        given = {name: value for name, value in members.items() if value is not None and value != ""}
        name = f"start_{self.instance}"
        call = build_process_call(name, "POST", self.instances_path, target, members=given, headers=headers)
        return Operation(call, self.read_instance.read_one)

    def get_instance(self, instance_id: str) -> Operation[InstanceT]:
        """An instance as it is now."""
        call = build_process_call(f"get_{self.instance}", "GET", f"{self.instances_path}/{{}}", instance_id)
        return Operation(call, self.read_instance.read_one)

    def list_instances(
        self, *, size: int = MAX_PAGE_SIZE, number: int = 0, **filters: "str | None"
    ) -> Script[Page[InstanceT]]:
        """Instances, the newest first."""
        name = f"list_{self.instance}s"
        return list_pages(name, self.instances_path, self.read_instance, size=size, number=number, filters=filters)

    def list_history(self, instance_id: str, *, size: int = MAX_PAGE_SIZE, number: int = 0) -> Script[Page[LineT]]:
        """Every entry into a node, by start."""
        path, name = f"{self.instances_path}/{{}}/history", f"{self.instance}_history"
        return list_pages(name, path, self.read_line, instance_id, size=size, number=number)

    def change(
        self, verb: str, instance_id: str, members: Mapping[str, object] | None = None, *, path: str = ""
    ) -> Operation[InstanceT]:
        """What ``verb`` makes of an instance."""
        place = f"{self.instances_path}/{{}}/{path or verb}"
        call = build_process_call(f"{verb}_{self.instance}", "POST", place, instance_id, members=members)
        return Operation(call, self.read_instance.read_one)
