"""Messages of a stream: put together however they were cut, never longer than they may be."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpc_h2.messages import MessageReader, MessageTooLarge, UnreadableMessage, frame_message

LIMIT = 1000
MIB = 1024 * 1024

COMPRESSED = {"gzip": gzip.compress, "deflate": zlib.compress}
ENCODINGS = pytest.mark.parametrize("encoding", COMPRESSED)


def marked(body: bytes, flag: int = 1) -> bytes:
    """A message whose first octet says that it is compressed, or something else."""
    return bytes([flag]) + len(body).to_bytes(4) + body


def read(reader: MessageReader, octets: bytes) -> list[bytes]:
    """The messages that are complete with these octets, inflated."""
    return [
        b"".join(reader.inflate(message.body)) if message.is_compressed else message.body
        for message in reader.feed(octets)
    ]


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_the_same_messages_come_out_however_the_octets_are_cut(messages: list[bytes], data: st.DataObject):
    stream = b"".join(map(frame_message, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = MessageReader(limit=LIMIT)
    parts = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [message for part in parts for message in read(reader, part)] == messages
    assert reader.pending_bytes == 0


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=4))
def test_octet_by_octet_each_message_comes_with_its_last_one(messages: list[bytes]):
    reader = MessageReader(limit=LIMIT)
    for message in messages:
        *before, last = (bytes([octet]) for octet in frame_message(message))
        assert [reader.feed(octet) for octet in before] == [[]] * len(before)
        assert reader.pending_bytes == len(before)
        assert read(reader, last) == [message]


def test_a_message_may_be_exactly_as_long_as_the_limit():
    assert read(MessageReader(limit=LIMIT), frame_message(bytes(LIMIT))) == [bytes(LIMIT)]


def test_one_octet_more_is_too_large_before_the_message_is_here():
    with pytest.raises(MessageTooLarge, match=r"larger than max \(1001 vs\. 1000\)"):
        MessageReader(limit=LIMIT).feed(frame_message(bytes(LIMIT + 1))[:5])


def test_the_longest_length_there_is_needs_no_memory():
    reader = MessageReader(limit=LIMIT)
    with pytest.raises(MessageTooLarge):
        reader.feed(b"\0\xff\xff\xff\xff")
    assert reader.pending_bytes == 0


@ENCODINGS
def test_compressed_and_other_messages_may_follow_one_another(encoding: str):
    reader = MessageReader(limit=LIMIT, encoding=encoding)
    assert read(reader, marked(COMPRESSED[encoding](b"one")) + frame_message(b"two")) == [b"one", b"two"]


@ENCODINGS
def test_an_empty_message_may_be_compressed(encoding: str):
    assert read(MessageReader(limit=LIMIT, encoding=encoding), marked(COMPRESSED[encoding](b""))) == [b""]


@ENCODINGS
def test_the_limit_counts_decompressed_octets(encoding: str):
    reader = MessageReader(limit=LIMIT, encoding=encoding)
    assert read(reader, marked(COMPRESSED[encoding](bytes(LIMIT)))) == [bytes(LIMIT)]
    with pytest.raises(MessageTooLarge):
        read(reader, marked(COMPRESSED[encoding](bytes(LIMIT + 1))))


@ENCODINGS
def test_a_bomb_is_not_inflated_beyond_the_limit(encoding: str):
    bomb = marked(COMPRESSED[encoding](bytes(64 * MIB)))
    with pytest.raises(MessageTooLarge, match=r"\(100001 vs"):
        read(MessageReader(limit=100_000, encoding=encoding), bomb)


@ENCODINGS
@pytest.mark.parametrize("missing", [1, 4, 8])
def test_truncated_data_are_no_message(encoding: str, missing: int):
    with pytest.raises(UnreadableMessage, match="ends in the middle"):
        read(MessageReader(limit=LIMIT, encoding=encoding), marked(COMPRESSED[encoding](b"abc")[:-missing]))


@ENCODINGS
def test_what_follows_the_compressed_data_is_not_dropped_in_silence(encoding: str):
    with pytest.raises(UnreadableMessage, match="goes on"):
        read(MessageReader(limit=LIMIT, encoding=encoding), marked(COMPRESSED[encoding](b"abc") * 2))


@ENCODINGS
def test_data_that_are_not_compressed_are_no_message(encoding: str):
    with pytest.raises(UnreadableMessage, match="cannot be decompressed"):
        read(MessageReader(limit=LIMIT, encoding=encoding), marked(b"plain text"))


def test_a_compressed_message_needs_an_encoding():
    with pytest.raises(UnreadableMessage, match="nothing was said of how"):
        read(MessageReader(limit=LIMIT), marked(gzip.compress(b"x")))


@pytest.mark.parametrize("flag", [2, 128, 255])
def test_a_flag_that_nobody_knows_is_no_message(flag: int):
    with pytest.raises(UnreadableMessage):
        read(MessageReader(limit=LIMIT, encoding="gzip"), marked(gzip.compress(b"x"), flag))
