"""Request bodies on their way to the database (docs/reference/entities.md#edge-messages)."""

import tracemalloc

import pytest

from statewright.services.messages import MAX_IN_MEMORY_BYTES, NotUtf8, TempFile

PART = b"x" * 65536


@pytest.mark.parametrize("size", [0, 1, MAX_IN_MEMORY_BYTES, MAX_IN_MEMORY_BYTES + 1, 3 * MAX_IN_MEMORY_BYTES])
def test_a_spool_gives_back_what_was_written_to_it(size: int) -> None:
    with TempFile() as spool:
        for part in (b"a" * (size // 2), b"b" * (size - size // 2)):
            spool.write(part)
        text = spool.read_text()
    assert bytes(text) == b"a" * (size // 2) + b"b" * (size - size // 2)


def test_a_long_text_is_not_held_in_memory() -> None:
    tracemalloc.start()
    try:
        with TempFile() as spool:
            for _ in range(160):
                spool.write(PART)
            assert len(spool.read_text()) == 160 * len(PART)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_spool_takes_text_however_it_is_cut_and_nothing_else() -> None:
    with TempFile() as spool:
        for byte in "é😀".encode():
            spool.write(bytes([byte]))
        assert bytes(spool.read_text()).decode() == "é😀"
    with TempFile() as spool, pytest.raises(NotUtf8):
        spool.write(b"\xff")
    with TempFile() as spool:
        spool.write(b"\xc3")
        with pytest.raises(NotUtf8):
            spool.read_text()
