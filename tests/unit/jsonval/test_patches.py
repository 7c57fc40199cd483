"""Merge patches and JSON Patches (RFC 7396, RFC 6902, RFC 6901)."""

import copy
import time

import pytest
from hypothesis import given

from statewright.jsonval.codec import MAX_NESTING, decode, encode, is_nested_too_deep
from statewright.jsonval.patches import (
    MAX_OPERATIONS,
    PatchFailed,
    apply_json_patch,
    apply_merge_patch,
    is_json_equal,
)
from statewright.jsonval.values import JsonObject, JsonValue
from tests.unit.schema.strategies import documents


def merged(document: str, patch: str) -> str:
    return encode(apply_merge_patch(decode(document), decode(patch))).decode()


def patched(document: str, patch: str) -> str:
    return encode(apply_json_patch(decode(document), decode(patch))).decode()


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [  # the examples of RFC 7396, appendix A
        ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
        ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
        ('{"a":"b"}', '{"a":null}', "{}"),
        ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
        ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
        ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
        ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
        ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
        ('["a","b"]', '["c","d"]', '["c","d"]'),
        ('{"a":"b"}', '["c"]', '["c"]'),
        ('{"a":"foo"}', "null", "null"),
        ('{"a":"foo"}', '"bar"', '"bar"'),
        ('{"e":null}', '{"a":1}', '{"a":1,"e":null}'),
        ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
        ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
        # and ours
        ('{"a":1}', "{}", '{"a":1}'),
        ('{"n":1}', '{"n":123456789012345678901234567890.12345}', '{"n":123456789012345678901234567890.12345}'),
        ('{"a":[1]}', '{"a":{"b":null,"c":1}}', '{"a":{"c":1}}'),
    ],
)
def test_merge_patches(document: str, patch: str, result: str) -> None:
    assert merged(document, patch) == result


@given(documents(), documents())
def test_a_merge_patch_is_idempotent_and_leaves_its_arguments_alone(document: JsonObject, patch: JsonObject) -> None:
    before = copy.deepcopy((document, patch))
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [  # the examples of RFC 6902, appendix A
        ('{"foo":"bar"}', '[{"op":"add","path":"/baz","value":"qux"}]', '{"baz":"qux","foo":"bar"}'),
        ('{"foo":["bar","baz"]}', '[{"op":"add","path":"/foo/1","value":"qux"}]', '{"foo":["bar","qux","baz"]}'),
        ('{"baz":"qux","foo":"bar"}', '[{"op":"remove","path":"/baz"}]', '{"foo":"bar"}'),
        ('{"foo":["bar","qux","baz"]}', '[{"op":"remove","path":"/foo/1"}]', '{"foo":["bar","baz"]}'),
        ('{"baz":"qux"}', '[{"op":"replace","path":"/baz","value":"boo"}]', '{"baz":"boo"}'),
        ('{"a":{"b":1},"c":{}}', '[{"op":"move","from":"/a/b","path":"/c/d"}]', '{"a":{},"c":{"d":1}}'),
        ('{"foo":["all","grass","cows","eat"]}', '[{"op":"move","from":"/foo/1","path":"/foo/3"}]', None),
        ('{"a":1}', '[{"op":"test","path":"/a","value":1}]', '{"a":1}'),
        ('{"foo":"bar"}', '[{"op":"add","path":"/child","value":{"g":{}}}]', '{"child":{"g":{}},"foo":"bar"}'),
        ('{"foo":"bar"}', '[{"op":"add","path":"/baz","value":"qux","xyz":123}]', '{"baz":"qux","foo":"bar"}'),
        ('{"/":9,"~1":10}', '[{"op":"test","path":"/~01","value":10}]', '{"/":9,"~1":10}'),
        ('{"foo":["bar"]}', '[{"op":"add","path":"/foo/-","value":["abc","def"]}]', '{"foo":["bar",["abc","def"]]}'),
        # and ours
        ('{"a":1}', "[]", '{"a":1}'),
        ('{"a":1}', '[{"op":"add","path":"","value":{"b":2}}]', '{"b":2}'),
        ('{"a":1}', '[{"op":"add","path":"/a","value":null}]', '{"a":null}'),
        (
            '{"a":{"b":1}}',
            '[{"op":"copy","from":"/a","path":"/c"},{"op":"remove","path":"/a/b"}]',
            '{"a":{},"c":{"b":1}}',
        ),
        ('{"":1}', '[{"op":"replace","path":"/","value":2}]', '{"":2}'),
        ('{"a":[1]}', '[{"op":"add","path":"/a/1","value":2}]', '{"a":[1,2]}'),
        ('{"a":1}', '[{"op":"move","from":"/a","path":"/a"}]', '{"a":1}'),
        ('{"a":7.0}', '[{"op":"test","path":"/a","value":7}]', '{"a":7.0}'),
        ('{"source":1}', '[{"op":"test","path":"/source","value":1,"source":5}]', '{"source":1}'),
    ],
)
def test_json_patches(document: str, patch: str, result: str | None) -> None:
    assert patched(document, patch) == (result or '{"foo":["all","cows","eat","grass"]}')


@pytest.mark.parametrize(
    ("document", "patch", "told"),
    [
        ('{"a":1}', '{"op":"add"}', "array of operations"),
        ('{"a":1}', '["add"]', "operation 0: malformed"),
        ('{"a":1}', '[{"op":"add","value":1}]', "operation 0: malformed"),
        ('{"a":1}', '[{"op":"add","path":7,"value":1}]', "operation 0: malformed"),
        ('{"a":1}', '[{"op":"twist","path":"/a"}]', 'unknown op "twist"'),
        ('{"a":1}', '[{"op":"add","path":"/b"}]', '"add" needs a value'),
        ('{"a":1}', '[{"op":"copy","path":"/b"}]', '"copy" needs a "from"'),
        ('{"a":1}', '[{"op":"test","path":"a","value":1}]', "no JSON Pointer"),
        ('{"a":1}', '[{"op":"test","path":"/~2","value":1}]', "no JSON Pointer"),
        ('{"a":1}', '[{"op":"test","path":"/~","value":1}]', "no JSON Pointer"),
        ('{"a":1}', '[{"op":"test","path":"","value":{}},{"op":"remove","path":"/a"}]', "operation 0: the value at"),
        ('{"a":1}', '[{"op":"remove","path":"/a"},{"op":"remove","path":"/a"}]', "operation 1: there is nothing at /a"),
        ('{"a":1}', '[{"op":"replace","path":"/b","value":1}]', "nothing at /b"),
        ('{"a":1}', '[{"op":"add","path":"/b/c","value":1}]', "nothing at /b"),
        ('{"a":1}', '[{"op":"add","path":"/a/b","value":1}]', "nothing can be added at /a/b"),
        ('{"a":[1]}', '[{"op":"add","path":"/a/2","value":1}]', "nothing at /a/2"),
        ('{"a":[1]}', '[{"op":"remove","path":"/a/-"}]', "no index"),
        ('{"a":[1,2]}', '[{"op":"remove","path":"/a/01"}]', "no index"),
        ('{"a":[1,2]}', '[{"op":"test","path":"/a/1e0","value":2}]', "no index"),
        ('{"a":{"b":1}}', '[{"op":"move","from":"/a","path":"/a/b"}]', "into itself"),
        ('{"a":"10"}', '[{"op":"test","path":"/a","value":10}]', "is another"),
        ('{"a":true}', '[{"op":"test","path":"/a","value":1}]', "is another"),
    ],
)
def test_a_patch_that_cannot_be_applied_names_its_operation(document: str, patch: str, told: str) -> None:
    with pytest.raises(PatchFailed) as failed:
        patched(document, patch)
    assert told in str(failed.value)


def test_copies_of_copies_are_refused_before_they_fill_the_memory() -> None:
    doubling = {"op": "copy", "from": "/a", "path": "/a/-"}
    with pytest.raises(PatchFailed, match="too much is copied"):
        apply_json_patch({"a": [1]}, [dict(doubling) for _ in range(60)])


def test_a_short_patch_that_doubles_an_array_is_refused_before_it_is_large() -> None:
    patch: list[JsonValue] = [{"op": "copy", "from": "/v", "path": "/v/-"} for _ in range(40)]
    taken = time.process_time()
    with pytest.raises(PatchFailed, match=r"operation \d+: too much is copied"):
        apply_json_patch({"v": [1]}, patch)
    assert time.process_time() - taken < 5


def test_a_patch_of_too_many_operations_is_refused() -> None:
    patch: list[JsonValue] = [{"op": "add", "path": "/v/0", "value": 1}] * 100_000
    taken = time.process_time()
    with pytest.raises(PatchFailed, match=f"operation {MAX_OPERATIONS}: "):
        apply_json_patch({"v": []}, patch)
    assert time.process_time() - taken < 5


def test_the_most_operations_cost_little_where_each_is_cheap() -> None:
    patch: list[JsonValue] = [{"op": "add", "path": "/v/0", "value": n} for n in range(MAX_OPERATIONS)]
    document: JsonValue = {"v": [0] * 50, "w": {str(n): n for n in range(10_000)}}
    taken = time.process_time()
    applied = apply_json_patch(document, patch)
    assert time.process_time() - taken < 5
    assert isinstance(applied, dict)
    assert applied["v"] == [*reversed(range(MAX_OPERATIONS)), *[0] * 50]


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "add", "path": "/v/0", "value": 1}],
        [{"op": "copy", "from": "/n", "path": "/v/0"}],
        [{"op": "move", "from": "/v/0", "path": "/v/9"}],
        [{"op": "add", "path": "/v/0", "value": 1}, {"op": "remove", "path": "/v/0"}],
    ],
)
def test_work_on_large_arrays_is_bounded_and_names_its_operation(patch: list[JsonValue]) -> None:
    document: JsonValue = {"v": [0] * 5_000_000, "n": 1}
    taken = time.process_time()
    with pytest.raises(PatchFailed, match=r"operation \d+: the patch takes too much work"):
        apply_json_patch(document, patch * (MAX_OPERATIONS // 2))
    assert time.process_time() - taken < 5


def test_a_document_that_is_copied_into_itself_is_not_nested_deeper_than_a_document_may_be() -> None:
    document: JsonValue = {}
    for _ in range(MAX_NESTING // 2 - 1):
        document = {"a": document}
    into_itself: JsonValue = {"op": "copy", "from": "", "path": "/a" * (MAX_NESTING // 2)}
    assert not is_nested_too_deep(apply_json_patch(document, [into_itself]))
    for times in (2, 50):
        with pytest.raises(PatchFailed, match=f"more than {MAX_NESTING} levels deep"):
            apply_json_patch(document, [into_itself] * times)


def test_what_was_copied_changes_without_its_original() -> None:
    document: JsonValue = {"a": {"b": [1, {"c": 1}]}}
    patch = (
        '[{"op":"add","path":"/a/b/1/d","value":2},{"op":"copy","from":"/a","path":"/z"},'
        '{"op":"replace","path":"/z/b/1/c","value":9},{"op":"add","path":"/a/b/0","value":7},'
        '{"op":"move","from":"/z/b","path":"/m"},{"op":"remove","path":"/m/0"},{"op":"copy","from":"","path":"/a/w"},'
        '{"op":"remove","path":"/a/w/m"}]'
    )
    before = encode(document)
    assert (
        patched(before.decode(), patch)
        == encode(
            {
                "a": {
                    "b": [7, 1, {"c": 1, "d": 2}],
                    "w": {"a": {"b": [7, 1, {"c": 1, "d": 2}]}, "z": {}},
                },
                "m": [{"c": 9, "d": 2}],
                "z": {},
            }
        ).decode()
    )


@given(documents(), documents())
def test_a_patch_changes_neither_the_document_nor_itself(document: JsonObject, value: JsonObject) -> None:
    patch: list[JsonValue] = [
        {"op": "add", "path": "/new", "value": value},
        {"op": "add", "path": "/new/inner", "value": value},
        {"op": "copy", "from": "/new", "path": "/other"},
        {"op": "add", "path": "/new/inner/deep", "value": 1},
        {"op": "move", "from": "/other", "path": "/new/moved"},
        {"op": "add", "path": "/new/moved/inner/deep", "value": 2},
    ]
    before = copy.deepcopy((document, patch))
    apply_json_patch(document, patch)
    assert (document, patch) == before


def test_a_pointer_deeper_than_any_document_is_refused() -> None:
    with pytest.raises(PatchFailed, match="steps"):
        apply_json_patch({}, [{"op": "remove", "path": "/a" * 100_000}])


@given(documents(), documents())
def test_replacing_the_whole_and_testing_it_succeeds(document: JsonObject, other: JsonObject) -> None:
    before = copy.deepcopy(document)
    replace = {"op": "replace", "path": "", "value": other}
    test = {"op": "test", "path": "", "value": other}
    assert is_json_equal(apply_json_patch(document, [replace, test]), other)
    assert document == before
