"""Maps of a message, counted on the wire before protobuf decodes it (docs/reference/grpc.md#limits-and-shutdown)."""

from typing import Final

import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

from statewright.api.grpc.inspection import MAX_ENTRIES, has_large_map
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.workflow.v1 import engine_pb2 as pb

ENOUGH: Final = MAX_ENTRIES
TOO_MANY: Final = MAX_ENTRIES + 1


def is_refused(message: Message, *pieces: Message) -> bool:
    """The message as it comes, or in pieces, which decoders join."""
    return has_large_map(message.DESCRIPTOR, b"".join(one.SerializeToString() for one in (message, *pieces)))


def attributes(count: int, first: int = 0) -> CloudEvent:
    event = CloudEvent(id="e", text_data="{}")
    for n in range(first, first + count):
        event.attributes[f"k{n}"].ce_boolean = True
    return event


def members(count: int, first: int = 0) -> Struct:
    found = Struct()
    for n in range(first, first + count):
        found.fields[f"k{n}"].bool_value = True
    return found


def put_into(place: str, struct: Struct) -> Message:
    match place:
        case "a result":
            return pb.CompleteJobRequest(job_id="j", variables_to_set=struct)
        case "an object in it":
            outer = Struct()
            outer.fields["a"].struct_value.CopyFrom(struct)
            return pb.SignalWaitRequest(variables=outer)
        case _:
            outer = Struct()
            outer.fields["a"].list_value.values.extend([Value(number_value=1), Value(struct_value=struct)])
            return pb.StartInstanceRequest(variables=outer)


def test_attributes_of_an_event_are_counted() -> None:
    assert (is_refused(attributes(ENOUGH)), is_refused(attributes(TOO_MANY))) == (False, True)


@pytest.mark.parametrize("place", ["a result", "an object in it", "an object of a list"])
def test_members_of_an_object_are_counted_wherever_it_is(place: str) -> None:
    within, beyond = (is_refused(put_into(place, members(count))) for count in (ENOUGH, TOO_MANY))
    assert (within, beyond) == (False, True)


def test_what_comes_in_pieces_is_counted_together() -> None:
    half = ENOUGH // 2
    pieces = [pb.CompleteJobRequest(variables_to_set=members(half, first * half)) for first in range(3)]
    assert (is_refused(*pieces[:2]), is_refused(*pieces)) == (False, True)


def test_many_small_objects_are_none_too_large() -> None:
    variables = Struct()
    for _ in range(TOO_MANY // 4):
        variables.fields["a"].list_value.values.add().struct_value.CopyFrom(members(5))
    assert not is_refused(pb.CompleteJobRequest(variables_to_set=variables))


def test_what_is_malformed_is_left_to_the_decoder() -> None:
    encoded = attributes(100).SerializeToString()
    assert not any(has_large_map(CloudEvent.DESCRIPTOR, encoded[:end]) for end in range(len(encoded)))
    assert not has_large_map(CloudEvent.DESCRIPTOR, b"\xff" * 100_000)
