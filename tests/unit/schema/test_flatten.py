"""The flattened view of a schema (docs/reference/models.md#declared-fields,
docs/reference/models.md#declared-fields).
"""

import pytest

from statewright.schema import flatten_fields
from tests.unit.schema.builders import schema_of


def fields_of(*samples: str) -> list[str]:
    return [
        f"{path} {' '.join(sorted(field.types))}{' array' * field.is_array}"
        for path, field in flatten_fields(schema_of(*samples)).items()
    ]


@pytest.mark.parametrize(
    ("sample", "fields"),
    [
        (
            '{"no":1,"lines":[{"sku":"A"}],"tags":["x"]}',
            ["$.lines[*].sku STRING", "$.no INTEGER", "$.tags[*] STRING array"],
        ),
        ("7", ["$ INTEGER"]),
        ("[7]", ["$[*] INTEGER array"]),
        ('{"a":{"b":null}}', ["$.a.b NULL"]),
        ('{"a":{},"b":[{}]}', []),
        ('{"grid":[[1]]}', ["$.grid[*][*] INTEGER array"]),
        ('{"x":[[{"a":1}]]}', ["$.x[*][*].a INTEGER"]),
        ('{"v":[{"a":1},null]}', ["$.v[*].a INTEGER"]),
        ('{"v":[{"a":1},"s",2]}', ["$.v[*] INTEGER STRING", "$.v[*].a INTEGER"]),
        ('{"v":[["a"],"s"]}', ["$.v[*][*] STRING array"]),
        ('{"none":[]}', ["$.none[*] NULL array"]),
        ('{"b":1,"B":1,"a.b":1}', ["$.B INTEGER", "$.a.b INTEGER", "$.b INTEGER"]),
    ],
)
def test_every_scalar_place_is_a_field(sample: str, fields: list[str]):
    assert fields_of(sample) == fields


def test_a_slot_that_is_an_object_or_a_scalar_is_a_field_and_has_fields():
    assert fields_of('{"ref":"x"}', '{"ref":{"id":1}}') == ["$.ref STRING", "$.ref.id INTEGER"]


def test_a_nullable_object_is_no_field():
    assert fields_of('{"ref":null}', '{"ref":{"id":1}}') == ["$.ref.id INTEGER"]
