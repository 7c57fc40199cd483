"""Request bodies on their way to the database (spec/entities.md §18)."""

import tracemalloc

import pytest

from statewright.services.spool import IN_MEMORY, NotUtf8, Spool

PART = b"x" * 65536


@pytest.mark.parametrize("size", [0, 1, IN_MEMORY, IN_MEMORY + 1, 3 * IN_MEMORY])
def test_a_spool_gives_back_what_was_written_to_it(size: int) -> None:
    with Spool() as spool:
        for part in (b"a" * (size // 2), b"b" * (size - size // 2)):
            spool.write(part)
        text = spool.text()
    assert bytes(text) == b"a" * (size // 2) + b"b" * (size - size // 2)


def test_a_long_text_is_not_held_in_memory() -> None:
    tracemalloc.start()
    try:
        with Spool() as spool:
            for _ in range(160):
                spool.write(PART)
            assert len(spool.text()) == 160 * len(PART)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_spool_takes_text_however_it_is_cut_and_nothing_else() -> None:
    with Spool() as spool:
        for byte in "é😀".encode():
            spool.write(bytes([byte]))
        assert bytes(spool.text()).decode() == "é😀"
    with Spool() as spool, pytest.raises(NotUtf8):
        spool.write(b"\xff")
    with Spool() as spool:
        spool.write(b"\xc3")
        with pytest.raises(NotUtf8):
            spool.text()
