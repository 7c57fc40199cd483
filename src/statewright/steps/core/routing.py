"""Which calculation members a job is pushed to (spec/step-engine.md §25.5)."""

from typing import Final

from statewright.steps.core.definition import Definition

TAGS: Final = "calculationNodesTags"


def member_tags(definition: Definition, job_type: str) -> str | None:
    """The ``metadata.dispatch.<jobType>.calculationNodesTags`` of a definition; None when there is no such text: then
    the job type is the tag.

    Metadata are the author's own, so what has another shape there has another meaning, and none to us.
    """
    place: object = definition.metadata
    for name in ("dispatch", job_type, TAGS):
        place = place.get(name) if isinstance(place, dict) else None
    return place if isinstance(place, str) and place.strip(" ,;") else None
