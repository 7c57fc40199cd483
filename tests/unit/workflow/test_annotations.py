import pytest

from statewright.failures import ValidationFailed
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow import check_incoming
from tests.unit.workflow.builders import (
    SEED,
    STRICT,
    a_processor,
    a_request,
    a_transition,
    a_workflow,
    with_processor,
    with_transition,
)

LIMIT = 65_536


def at(place: str, annotations: JsonValue) -> JsonObject:
    """A workflow annotated at one of the six places, named as messages name it."""
    match place:
        case 'workflow "parcel"':
            return a_workflow(annotations=annotations)
        case 'workflow "parcel" criterionAnnotations':
            return a_workflow(criterionAnnotations=annotations)
        case 'workflow "parcel" state "A"':
            return a_workflow(states={"A": {"annotations": annotations}})
        case 'workflow "parcel" state "A" transition "go"':
            return with_transition(a_transition(annotations=annotations))
        case 'workflow "parcel" state "A" transition "go" criterionAnnotations':
            return with_transition(a_transition(criterionAnnotations=annotations))
        case _:
            return with_processor(a_processor(annotations=annotations))


PLACES = [
    'workflow "parcel"',
    'workflow "parcel" criterionAnnotations',
    'workflow "parcel" state "A"',
    'workflow "parcel" state "A" transition "go"',
    'workflow "parcel" state "A" transition "go" criterionAnnotations',
    'workflow "parcel" state "A" transition "go" processor "price"',
]


def sized(size: int) -> JsonObject:
    """An object of so many bytes as compact JSON."""
    return {"k": "x" * (size - len('{"k":""}'))}


@pytest.mark.parametrize("version", [STRICT, SEED])
@pytest.mark.parametrize("annotations", [[], "text", 0, False])
@pytest.mark.parametrize("place", PLACES)
def test_annotations_must_be_an_object(place, annotations, version):
    with pytest.raises(ValidationFailed) as refused:
        check_incoming(a_request(at(place, annotations) | {"version": version}))
    assert refused.value.message == f"{place}: annotations must be a JSON object"


@pytest.mark.parametrize("place", PLACES)
def test_annotations_over_the_limit_are_refused(place):
    with pytest.raises(ValidationFailed) as refused:
        check_incoming(a_request(at(place, sized(LIMIT + 1))))
    assert refused.value.message == f"{place}: annotations size 65537 bytes exceeds the 65536-byte limit"


@pytest.mark.parametrize("annotations", [None, {}, {"displayName": 7}, sized(LIMIT)])
@pytest.mark.parametrize("place", PLACES)
def test_any_object_up_to_the_limit_is_fine(place, annotations):
    assert check_incoming(a_request(at(place, annotations))) == ()


def test_the_limit_counts_bytes_not_characters():
    with pytest.raises(ValidationFailed, match="annotations size 80008 bytes"):
        check_incoming(a_request(a_workflow(annotations={"k": "ä" * 40_000})))
