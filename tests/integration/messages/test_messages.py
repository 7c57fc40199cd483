"""Edge messages over REST (docs/reference/entities.md#edge-messages)."""

import http.client
import json
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import httpx
import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated
from tests.service import Api, RunningService, done, refused

NEW = "/message/new/dock.arrivals"
MEBIBYTE = 1024 * 1024
LIMIT = 10 * MEBIBYTE
UUID_V1 = r"[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
UNKNOWN = "c0ffee00-77aa-41f0-8a3e-0242ac120003"


def post(api: Api, body: Json, path: str = NEW, **headers: str) -> httpx.Response:
    """A new message; headers in the words of Python."""
    return api.post(path, body, **({"Content_Type": "application/json"} | headers))


def a_message(api: Api, payload: Json = 1, path: str = NEW, **headers: str) -> str:
    """The id of a stored message."""
    [result] = done(post(api, {"payload": payload}, path, **headers))
    return str(result["entityIds"][0])


def content_of(api: Api, text: str) -> str:
    """The payload as it comes back after it was sent as this very text."""
    [result] = done(post(api, f'{{"payload":{text}}}'))
    answer = api.get(f"/message/{result['entityIds'][0]}").text
    return answer[len('{"content":') : answer.rindex(',"header":')]


def answer_to(
    api: Api, headers: Iterable[tuple[str, str]], parts: Iterable[bytes], path: str = NEW
) -> tuple[int, Json]:
    """Status and body of a request with exactly these headers; for what no HTTP library sends of its own accord."""
    url = urlsplit(api.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=20)
    try:
        connection.putrequest("POST", f"{url.path}{path}", skip_accept_encoding=True)
        connection.putheader("Authorization", f"Bearer {api.token}")
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        for part in parts:
            connection.send(part)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# Creating


def test_a_create_answers_with_one_transaction_result(api: Api) -> None:
    response = post(api, {"payload": 1})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert re.fullmatch(rf'\[{{"entityIds":\["{UUID_V1}"\],"transactionId":"{UUID_V1}"}}\]\n', response.text)


@pytest.mark.parametrize("payload", [None, "text", 5, 1.5, True, [], [1, [2]], {}, {"a": {"b": None}}])
def test_a_payload_is_any_json_value(api: Api, payload: Json) -> None:
    assert done(api.get(f"/message/{a_message(api, payload)}"))["content"] == payload


@pytest.mark.parametrize("body", [{}, {"metaData": {}}, {"Payload": 1}, {"content": 1}])
def test_a_payload_is_required(api: Api, body: Json) -> None:
    problem = refused(post(api, body), 400, "BAD_REQUEST")
    assert "payload" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[]",
        b"5",
        b"null",
        b'"x"',
        b"{",
        b'{"payload":1',
        b'{"payload":1}}',
        b'{"payload":1} x',
        b'{"payload":[1,]}',
        b'{"payload":{a:1}}',
        b'{"payload":01}',
        b'{"payload":NaN}',
        b'{"payload":"\n"}',
        b'{"payload":"\\x"}',
        b'{"payload":"\\ud800"}',
        b'{"payload":"\xff"}',
        b'{"payload":1,"other":"\xc3"}',
        b'{"payload":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"payload":1}',
        b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_body_that_is_no_json_object_is_refused(api: Api, body: bytes) -> None:
    refused(post(api, body), 400, "BAD_REQUEST")


@pytest.mark.parametrize("metadata", ["[]", '"x"', "5", "true", "null"])
def test_metadata_must_be_an_object(api: Api, metadata: str) -> None:
    refused(post(api, f'{{"payload":1,"metaData":{metadata}}}'), 400, "BAD_REQUEST")


def test_other_members_are_ignored_the_older_spelling_of_metadata_too(api: Api) -> None:
    [result] = done(post(api, {"payload": 1, "meta-data": {"a": 1}, "other": [1]}))
    message = done(api.get(f"/message/{result['entityIds'][0]}"))
    assert (message["metaData"], message["content"]) == ({}, 1)


def test_the_timeout_must_be_a_64_bit_integer_and_has_no_effect(api: Api) -> None:
    done(post(api, {"payload": 1}, f"{NEW}?transactionTimeoutMillis=9223372036854775807&other=1"))
    for value in ("soon", "9223372036854775808", "1.5", ""):
        problem = refused(post(api, {}, f"{NEW}?transactionTimeoutMillis={value}"), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == "transactionTimeoutMillis"


# Headers


def test_a_message_is_exactly_as_specified(api: Api) -> None:
    body = '{"metaData": {"source": "gate-3", "priority": 2}, "payload": {"plate": "AB-1234", "pallets": [1, 2]}}'
    [result] = done(post(api, body, X_Message_ID="truck-17", X_Correlation_ID="c-204"))
    response = api.get(f"/message/{result['entityIds'][0]}")
    assert response.headers["content-type"] == "application/json"
    assert response.text == (
        '{"content":{"plate":"AB-1234","pallets":[1,2]},"header":{"contentEncoding":"UTF-8","contentLength":101,'
        '"contentType":"application/json","correlationId":"c-204","messageId":"truck-17","subject":"dock.arrivals"},'
        '"metaData":{"source":"gate-3","priority":2}}\n'
    )
    assert len(body) == 101


def test_every_header_is_kept_verbatim(api: Api) -> None:
    message = a_message(
        api,
        path="/message/new/a%20b%2Fc",
        Content_Type='text/plain; charset="x"; a=b',
        Content_Encoding="gzip",
        X_Message_ID="m 1",
        X_User_ID="mira",
        X_Recipient="a@b, c@d",
        X_Reply_To="q" * 3000,
        X_Correlation_ID='{"x":1}',
    )
    assert done(api.get(f"/message/{message}"))["header"] == {
        "subject": "a b/c",
        "contentType": 'text/plain; charset="x"; a=b',
        "contentLength": 14,
        "contentEncoding": "gzip",
        "messageId": "m 1",
        "userId": "mira",
        "recipient": "a@b, c@d",
        "replyTo": "q" * 3000,
        "correlationId": '{"x":1}',
    }


def test_empty_headers_are_left_out(api: Api) -> None:
    message = a_message(api, X_Message_ID="", X_User_ID="", Content_Encoding="")
    header = done(api.get(f"/message/{message}"))["header"]
    assert header.keys() == {"subject", "contentType", "contentLength", "contentEncoding"}
    assert header["contentEncoding"] == "UTF-8"


def test_names_in_any_script_survive(api: Api) -> None:
    body = b'{"payload":1}'
    headers = [("Content-Type", "a"), ("Content-Length", str(len(body))), ("X-User-ID", "Žofie".encode())]
    status, [result] = answer_to(api, headers, [body], "/message/new/%C5%A1est%00")
    assert status == 200
    header = done(api.get(f"/message/{result['entityIds'][0]}"))["header"]
    assert (header["userId"], header["subject"]) == ("Žofie", "šest\0")


def without_parameter(problem: Json) -> None:
    assert problem["properties"] == {"errorCode": "BAD_REQUEST"}


def test_a_content_type_is_required(api: Api) -> None:
    without_parameter(refused(api.post(NEW, {"payload": 1}), 400, "BAD_REQUEST"))


def test_a_content_length_is_required(api: Api) -> None:
    headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    status, problem = answer_to(api, headers, [b'd\r\n{"payload":1}\r\n0\r\n\r\n'])
    assert status == 400
    without_parameter(problem)


@pytest.mark.parametrize(
    "name",
    [
        "Content-Type",
        "Content-Encoding",
        "X-Message-ID",
        "X-User-ID",
        "X-Recipient",
        "X-Reply-To",
        "X-Correlation-ID",
    ],
)
def test_a_repeated_header_is_refused(api: Api, name: str) -> None:
    body = b'{"payload":1}'
    headers = [("Content-Length", str(len(body))), (name, "a"), (name, "a")]
    status, problem = answer_to(api, [*headers, *([] if name == "Content-Type" else [("Content-Type", "a")])], [body])
    assert status == 400
    without_parameter(problem)


# Payloads


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('{ "b" : 1,\n "a" : [ 1 , 2 ] }', '{"b":1,"a":[1,2]}'),
        ("12345678901234567890123456789012345678901234567890", None),
        ("0.1000000000000000000000000000000000000001", None),
        ("1.50", None),
        ("-0", None),
        ("1E+400", None),
        ("1e6144", None),
        ('"\\u0000\\u00e9\\/ \\" é 😀 \u2028"', None),
        ('{"a":1,"a":2}', None),
    ],
)
def test_a_payload_comes_back_with_its_digits_and_its_order(api: Api, sent: str, kept: str | None) -> None:
    assert content_of(api, sent) == (kept or sent)


def test_a_number_that_nobody_could_read_is_refused_with_its_place(api: Api) -> None:
    for body, place in (
        ('{"payload":{"a":[1,1e99999]}}', "payload.a[1]"),
        ('{"payload":[1e-7000]}', "payload[0]"),
        ('{"payload":1e6145}', "payload"),
        ('{"payload":"1e99999","metaData":{"n":%s}}' % ("7" * 4001), "metaData.n"),
    ):
        assert refused(post(api, body), 400, "BAD_REQUEST")["detail"].endswith(f" at {place}")


def test_metadata_comes_back_as_it_was_submitted(api: Api) -> None:
    [result] = done(post(api, '{"metaData": { "b": 1.0, "a": {"z": [ null ]}, "a b": "x  y" }, "payload": 0}'))
    answer = api.get(f"/message/{result['entityIds'][0]}").text
    assert answer.endswith(',"metaData":{"b":1.0,"a":{"z":[null]},"a b":"x  y"}}\n')


@pytest.mark.parametrize(
    "payload",
    [
        '"' + "a\\n é" * (8 * MEBIBYTE // 6) + '"',
        "[" + ", ".join(["12345.67890"] * (5 * MEBIBYTE // 13)) + "]",
        '{"name": ' * 400 + "1" + "}" * 400,
        "[" + ",\n    ".join(['{"id": "x y", "text": "\\\\\\""}'] * 100_000) + "]",
    ],
    ids=["one string", "numbers", "deep", "records"],
)
def test_large_payloads_come_back_whole(api: Api, payload: str) -> None:
    kept = json.dumps(json.loads(payload, parse_float=float), separators=(",", ":"), ensure_ascii=False)
    assert content_of(api, payload) == kept.replace("12345.6789", "12345.67890")


def test_a_body_of_exactly_the_limit_is_accepted(api: Api) -> None:
    frame = '{"payload":""}'
    text = "x" * (LIMIT - len(frame))
    [result] = done(post(api, f'{{"payload":"{text}"}}'))
    message = done(api.get(f"/message/{result['entityIds'][0]}"))
    assert message["content"] == text
    assert message["header"]["contentLength"] == LIMIT


def test_a_larger_body_is_too_large_whatever_it_says(api: Api) -> None:
    problem = refused(post(api, b"x" * (LIMIT + 1)), 413, "BAD_REQUEST")
    assert problem["title"] == "Request Entity Too Large"


def test_a_body_that_is_announced_too_large_is_not_waited_for(api: Api) -> None:
    headers = [("Content-Type", "application/json"), ("Content-Length", str(LIMIT + 1))]
    status, problem = answer_to(api, headers, [])
    assert (status, problem["properties"]["errorCode"]) == (413, "BAD_REQUEST")


def test_headers_are_looked_at_before_the_size(api: Api) -> None:
    refused(api.post(NEW, b"x" * (LIMIT + 1)), 400, "BAD_REQUEST")


# Reading


@pytest.mark.parametrize(
    "content", [{"a": 1}, {"edge_message_content": 'say "hi"\n\\ \u00fc \U0001f600'}, [1.50], "text", None]
)
def test_older_clients_read_the_content_as_a_text_by_another_path(api: Api, content: Json) -> None:
    message = a_message(api, content)
    older, newer = done(api.get(f"/message/get/{message}")), done(api.get(f"/message/{message}"))
    assert isinstance(older["content"], str)
    assert json.loads(older["content"]) == newer["content"] == content
    assert (older["header"], older["metaData"]) == (newer["header"], newer["metaData"])


def test_a_long_content_is_a_text_from_its_beginning_to_its_end(api: Api) -> None:
    content = {"text": 'ü"\\' * 300_000}
    message = a_message(api, content)
    assert json.loads(done(api.get(f"/message/get/{message}"))["content"]) == content


def test_any_spelling_of_an_id_will_do(api: Api) -> None:
    message = a_message(api)
    for text in (message.upper(), message.replace("-", ""), f"%7B{message}%7D", f"urn:uuid:{message}"):
        done(api.get(f"/message/{text}"))


@pytest.mark.parametrize("path", ["/message/", "/message/get/"])
@pytest.mark.parametrize("text", ["x", "new", "5", UNKNOWN[:-1], f"{UNKNOWN}0"])
def test_what_is_no_uuid_does_not_bind(api: Api, path: str, text: str) -> None:
    problem = refused(api.get(f"{path}{text}"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "messageId"


def test_an_unknown_message_is_not_found(api: Api) -> None:
    for method in ("GET", "DELETE"):
        problem = refused(api.request(method, f"/message/{UNKNOWN.upper()}"), 404, "ENTITY_NOT_FOUND")
        assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND", "messageId": UNKNOWN}


def test_another_tenants_message_is_like_none(service: RunningService, api: Api, tenant: str) -> None:
    message = a_message(api)
    other = service.api(f"{tenant}-other")
    absent = refused(other.get(f"/message/{UNKNOWN}"), 404, "ENTITY_NOT_FOUND")
    found = refused(other.get(f"/message/{message}"), 404, "ENTITY_NOT_FOUND")
    assert json.dumps(found).replace(message, UNKNOWN) == json.dumps(absent)
    refused(other.delete(f"/message/{message}"), 404, "ENTITY_NOT_FOUND")
    done(other.delete("/message", [message]))
    done(api.get(f"/message/{message}"))


# Deleting


def test_a_deleted_message_is_gone(api: Api) -> None:
    message = a_message(api)
    assert api.delete(f"/message/{message}").text == f'{{"entityIds":["{message}"]}}\n'
    refused(api.get(f"/message/{message}"), 404, "ENTITY_NOT_FOUND")
    refused(api.delete(f"/message/{message}"), 404, "ENTITY_NOT_FOUND")
    problem = refused(api.delete("/message/x"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "messageId"


def test_a_list_of_messages_is_deleted_and_echoed_as_sent(api: Api) -> None:
    first, second, kept = (a_message(api, "x" * 200_000) for _ in range(3))
    sent = [first.upper(), UNKNOWN, f"{{{second}}}", first]
    assert done(api.delete("/message?transactionSize=5", sent)) == [{"entityIds": sent, "success": True}]
    for message in (first, second):
        refused(api.get(f"/message/{message}"), 404, "ENTITY_NOT_FOUND")
    done(api.get(f"/message/{kept}"))


def test_an_empty_list_deletes_nothing(api: Api) -> None:
    assert api.delete("/message", []).text == '[{"entityIds":[],"success":true}]\n'


@pytest.mark.parametrize(
    "body", ["", "{", "{}", "null", '"x"', "[1]", "[null]", '["x"]', f'["{UNKNOWN}", "x"]', f'["{UNKNOWN}"] x']
)
def test_a_bad_list_deletes_nothing(api: Api, body: str) -> None:
    message = a_message(api)
    problem = refused(api.delete("/message", body.replace(UNKNOWN, message)), 400, "BAD_REQUEST")
    assert "parameter" not in problem["properties"]
    done(api.get(f"/message/{message}"))


def test_a_list_over_the_limit_is_too_large(api: Api) -> None:
    refused(api.delete("/message", b" " * (LIMIT + 1)), 413, "BAD_REQUEST")


def test_the_transaction_size_must_be_an_integer_and_has_no_effect(api: Api) -> None:
    problem = refused(api.delete("/message?transactionSize=x", []), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "transactionSize"
    ids = [a_message(api) for _ in range(3)]
    done(api.delete("/message?transactionSize=1", ids))
    refused(api.get(f"/message/{ids[2]}"), 404, "ENTITY_NOT_FOUND")


# Transactions


def test_messages_are_stored_outside_the_transaction_that_was_joined(api: Api, serving, callback) -> None:
    node, stored = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        stored.append(a_message(callback(context), "kept"))
        assert done(api.get(f"/message/{stored[0]}"))["content"] == "kept"
        raise ValueError("no luck")

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    refused(api.post(f"/entity/JSON/{model}", SAMPLE), 400, "WORKFLOW_FAILED")
    assert done(api.get(f"/message/{stored[0]}"))["content"] == "kept"


# Methods


def test_other_methods_are_not_allowed(api: Api) -> None:
    assert api.get("/message").status_code == 405
    assert api.put(f"/message/{UNKNOWN}").status_code == 405
    assert api.get("/message/new/x").status_code == 405
