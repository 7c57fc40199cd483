"""What a model has accepted is valid in it, and stays so (docs/reference/models.md#atomicity-of-growth: extension
never tightens).

The documents here mix scalars, nulls, objects and arrays, but never an object and an array, nor a scalar and a
container, at one place: the stored form forgets the array branch of such a place (docs/reference/models.md#merging),
and change levels refuse it
as polymorphic (docs/reference/models.md#refusals-under-a-change-level).
"""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema import ChangeLevel, SchemaNode, infer, merge, normalise, validate
from tests.unit.schema.builders import compare_and_extend
from tests.unit.schema.strategies import scalars
from tests.unit.schema.test_change_level import LEVEL, attempt


def kept_apart() -> st.SearchStrategy[JsonObject]:
    """Documents in which the name of a member says what it holds."""
    return st.recursive(_object(st.nothing()), _object, max_leaves=12)


def _object(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonObject]:
    members: dict[str, st.SearchStrategy[JsonValue]] = {
        "scalar": scalars(),
        "other": scalars(),
        "scalars": st.lists(scalars(), max_size=3),
    }
    if not inner.is_empty:
        members |= {"object": inner | st.none(), "objects": st.lists(inner | st.none(), max_size=3) | st.none()}
    return st.fixed_dictionaries({}, optional=members)


@given(kept_apart())
def test_a_sample_is_valid_in_what_it_has_taught(sample: JsonObject):
    assert validate(normalise(infer(sample)), sample) == ()


@given(st.lists(kept_apart(), min_size=1, max_size=4))
def test_every_sample_is_valid_in_what_all_of_them_have_taught(samples: list[JsonObject]):
    schema = normalise(reduce(merge, map(infer, samples)))
    assert [validate(schema, sample) for sample in samples] == [()] * len(samples)


@given(st.lists(kept_apart(), min_size=2, max_size=5), LEVEL)
def test_every_accepted_document_validates_from_then_on(documents: list[JsonObject], level: ChangeLevel):
    schema = normalise(infer(documents[0]))
    accepted = [documents[0]]
    for document in documents[1:]:
        grown = attempt(schema, document, level)
        if isinstance(grown, SchemaNode):
            schema = grown
            accepted.append(document)
    assert [validate(schema, document) for document in accepted] == [()] * len(accepted)


@given(kept_apart(), LEVEL)
def test_what_a_model_knows_is_accepted_at_every_level_and_teaches_it_nothing(sample: JsonObject, level: ChangeLevel):
    schema = normalise(infer(sample))
    assert compare_and_extend(schema, sample, level) is schema
