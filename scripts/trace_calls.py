"""Which files and functions of the package a request goes through: a profile function for the threads of a service.

On the threads that it is installed on it looks at every call and counts those of functions below a folder, while it is
counting. A function counts once each time it is called, a coroutine not again when it goes on after waiting.
Comprehensions are not counted: newer Pythons call nothing for them.
"""

from pathlib import Path
from types import FrameType

from msgspec import Struct

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_AFTER_START = 3
"""Bits of the operand of ``RESUME`` that are 0 where a function begins."""


class Trace(Struct, frozen=True):
    """What was called."""

    files: frozenset[str]
    """Relative to the folder."""
    calls: int


class CallTracer:
    """Counts calls of functions below ``folder``. Left out are files whose path in it begins with one of ``apart``, and
    with ``file::Name`` what is named so in one file.
    """

    def __init__(self, folder: Path, apart: tuple[str, ...] = ()) -> None:
        self._folder = f"{folder}/"
        self._apart = tuple(one for one in apart if "::" not in one)
        self._names_apart: dict[str, tuple[str, ...]] = {}
        for file, _, name in (one.partition("::") for one in apart if "::" in one):
            self._names_apart[file] = (*self._names_apart.get(file, ()), name)
        self._files: dict[str, str | None] = {}
        self._is_counting = False
        self._seen: set[str] = set()
        self._calls = 0

    def begin(self) -> None:
        """Count from here on, from zero."""
        self._seen, self._calls = set(), 0
        self._is_counting = True

    def end(self) -> Trace:
        """Count no more; what was called since the beginning."""
        self._is_counting = False
        return Trace(frozenset(self._seen), self._calls)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """What ``sys.setprofile`` calls."""
        if not self._is_counting or event != "call":
            return
        code = frame.f_code
        if code.co_filename not in self._files:
            self._files[code.co_filename] = self._place(code.co_filename)
        file = self._files[code.co_filename]
        if file is None or code.co_name in _COMPREHENSIONS:
            return
        if file in self._names_apart and code.co_qualname.split(".")[0] in self._names_apart[file]:
            return
        self._seen.add(file)
        if code.co_code[frame.f_lasti + 1] & _AFTER_START == 0:
            self._calls += 1

    def _place(self, filename: str) -> str | None:
        """A file, relative to the folder, if it counts."""
        if not filename.startswith(self._folder):
            return None
        path = filename.removeprefix(self._folder)
        return None if path.startswith(self._apart) else path
