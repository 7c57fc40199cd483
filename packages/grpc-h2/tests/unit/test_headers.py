"""What stands at the beginning and at the end of a call."""

import base64
from urllib.parse import unquote_to_bytes

import grpc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grpc_h2.headers import (
    MAX_STATUS_TEXT_BYTES,
    CallRefused,
    Headers,
    NotGrpc,
    RequestHeaders,
    build_trailers,
    encode_metadata,
    read_request_headers,
)

UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def request(*more: tuple[bytes, bytes], **others: bytes) -> Headers:
    """The headers of a call, in the order grpcio sends them."""
    headers = {b":path": b"/p.S/m", b":method": b"POST", b"te": b"trailers", b"content-type": b"application/grpc"}
    given_instead = {name.encode().replace(b"__", b":").replace(b"_", b"-"): value for name, value in others.items()}
    return [*(headers | given_instead).items(), *more]


def head(*more: tuple[bytes, bytes], **others: bytes) -> RequestHeaders:
    return read_request_headers(request(*more, **others))


def refusal(*more: tuple[bytes, bytes], **others: bytes) -> grpc.StatusCode:
    with pytest.raises(CallRefused) as refused:
        head(*more, **others)
    return refused.value.code


def http_status(*more: tuple[bytes, bytes], **others: bytes) -> int:
    with pytest.raises(NotGrpc) as foreign:
        head(*more, **others)
    return foreign.value.status


def test_a_call_says_its_method_and_nothing_else():
    read = head()
    assert read == RequestHeaders(
        path="/p.S/m", metadata=(), timeout=None, encoding="identity", memory_bytes=read.memory_bytes
    )


def test_headers_take_more_memory_than_they_are_long():
    more = head((b"x-long", b"y" * 1000)).memory_bytes - head().memory_bytes
    assert 1006 < more < 1500


@given(st.integers(0, 99_999_999), st.sampled_from(sorted(UNITS)))
def test_a_timeout_has_up_to_eight_digits_and_a_unit(number: int, unit: str):
    assert head((b"grpc-timeout", f"{number}{unit}".encode())).timeout == number * UNITS[unit]


@pytest.mark.parametrize(
    "malformed",
    ["", "S", "1", "123456789S", "1.5S", "-1S", "+1S", "1s", "1 S", "1SS", "0x1S", "1_0S", "\xb2S", "1S\x00"],
)
def test_a_malformed_timeout_is_refused(malformed: str):
    if "\0" in malformed:
        assert http_status((b"grpc-timeout", malformed.encode("latin-1"))) == 400
    else:
        assert refusal((b"grpc-timeout", malformed.encode("latin-1"))) == grpc.StatusCode.INTERNAL


@given(st.binary(max_size=40))
def test_octets_come_with_padding_or_without(octets: bytes):
    padded = base64.b64encode(octets)
    for value in (padded, padded.rstrip(b"=")):
        assert head((b"x-bin", value)).metadata == (("x-bin", octets),)


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=4))
def test_several_values_may_share_a_header(values: list[bytes]):
    joined = b", ".join(map(base64.b64encode, values))
    assert head((b"x-bin", joined)).metadata == tuple(("x-bin", value) for value in values)


@pytest.mark.parametrize("malformed", [b"A", b"AAAAA", b"!!!!", b"YQ=YQ", b"Y Q", b"\xff\xff", b"YQ==,!"])
def test_malformed_octets_are_refused(malformed: bytes):
    assert refusal((b"x-bin", malformed)) == grpc.StatusCode.INTERNAL


@given(st.lists(st.binary(max_size=9), max_size=4))
def test_octets_sent_are_octets_received(values: list[bytes]):
    ours = [("x-bin", value) for value in values]
    assert head(*encode_metadata(ours)).metadata == tuple(ours)


def test_metadata_keep_their_order_and_their_repetitions():
    sent = [(b"b", b"1"), (b"a", b"2"), (b"b", b"3")]
    assert head(*sent).metadata == (("b", "1"), ("a", "2"), ("b", "3"))


def test_spaces_around_a_value_are_none_of_it():
    assert head((b"a", b" \tx y\t ")).metadata == (("a", "x y"),)


def test_what_the_protocol_says_is_no_metadata():
    assert head((b"grpc-accept-encoding", b"gzip"), (b":authority", b"localhost")).metadata == ()


def test_a_user_agent_and_an_authorization_are_metadata():
    sent = ((b"user-agent", b"grpc-go/1"), (b"authorization", b"Bearer x"))
    assert head(*sent).metadata == (("user-agent", "grpc-go/1"), ("authorization", "Bearer x"))


@pytest.mark.parametrize("kind", [b"application/grpc", b"application/grpc+proto", b"application/grpc;charset=utf-8"])
def test_grpc_has_many_names(kind: bytes):
    assert head(content_type=kind).path == "/p.S/m"


@pytest.mark.parametrize("kind", [b"", b"application/json", b"application/grpc-web", b"application/grpcx"])
def test_other_content_is_415(kind: bytes):
    assert http_status(content_type=kind) == 415


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"post"])
def test_other_methods_are_405(method: bytes):
    assert http_status(__method=method) == 405


@pytest.mark.parametrize("name", [b"Upper", b"with space", b"", b"a:b", b"::", b"tab\t", b"\xff", b"nul\0"])
def test_a_name_that_is_none_is_400(name: bytes):
    assert http_status((name, b"x")) == 400


@pytest.mark.parametrize("value", [b"a\0b", b"a\rb", b"a\nb"])
def test_a_value_that_is_none_is_400(value: bytes):
    assert http_status((b"a", value)) == 400


def test_a_call_without_a_path_is_400():
    assert http_status(__path=b"") == 400


@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate"])
def test_messages_may_be_compressed(encoding: str):
    assert head((b"grpc-encoding", encoding.encode())).encoding == encoding


def test_compression_that_nobody_knows_is_unimplemented():
    assert refusal((b"grpc-encoding", b"snappy")) == grpc.StatusCode.UNIMPLEMENTED


def text_of(headers: Headers) -> str:
    """As clients decode it: escapes are octets, octets are UTF-8."""
    value = dict(headers).get(b"grpc-message", b"")
    assert value.strip(b" ") == value  # or HTTP would strip it
    assert all(0x20 <= octet < 0x7F for octet in value)
    return unquote_to_bytes(value).decode()


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example(" both ends ")
@example("   ")
@example("100 % of 100%25")
@example("line\r\nline\t\0\x7f")
@example("Grüße, 你好, \U0001f600")
def test_any_text_is_decoded_as_it_was(text: str):
    assert text_of(build_trailers(grpc.StatusCode.UNKNOWN, text)) == text


@given(st.text(st.characters(categories=["Cs", "Ll"])))
def test_half_a_surrogate_pair_becomes_a_question_mark(text: str):
    told = text_of(build_trailers(grpc.StatusCode.UNKNOWN, text))
    assert told == "".join("?" if "\ud800" <= char <= "\udfff" else char for char in text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=7))
@example(" ")
@example("ä")
@example("\U0001f600x")
def test_a_long_text_is_cut_between_characters(piece: str):
    text = piece * MAX_STATUS_TEXT_BYTES
    headers = build_trailers(grpc.StatusCode.UNKNOWN, text)
    told = text_of(headers)
    assert text.startswith(told)
    assert len(dict(headers)[b"grpc-message"]) <= MAX_STATUS_TEXT_BYTES
    assert len(told) >= MAX_STATUS_TEXT_BYTES // 12 - len(piece) or not piece.strip(" ")


def test_a_text_that_is_just_short_enough_is_whole():
    assert text_of(build_trailers(grpc.StatusCode.UNKNOWN, "x" * MAX_STATUS_TEXT_BYTES)) == "x" * MAX_STATUS_TEXT_BYTES


def test_the_status_is_a_number_and_no_text_is_no_header():
    assert build_trailers(grpc.StatusCode.UNAVAILABLE, "") == [(b"grpc-status", b"14")]


def test_only_names_that_end_in_bin_are_encoded():
    assert encode_metadata([("a", "x"), ("b", b"y"), ("c-bin", b"z"), ("d-bin", "z")]) == [
        (b"a", b"x"),
        (b"b", b"y"),
        (b"c-bin", b"eg"),
        (b"d-bin", b"eg"),
    ]


@pytest.mark.parametrize(
    "wrong", [("Upper", "x"), ("a b", "x"), ("", "x"), ("a", "x\ny"), ("a", "ä"), ("a", b"\xff"), ("a", "\ud800")]
)
def test_metadata_that_no_client_could_read_are_an_error_of_ours(wrong: tuple[str, str | bytes]):
    with pytest.raises(ValueError, match="metadata"):
        encode_metadata([wrong])
