"""A tab of the browser that records whatever must not happen."""

import re
from typing import Any

HEIGHTS = {390: 844, 1440: 900, 320: 640}


FIND_CUT = """() => [...document.querySelectorAll("body *")].filter((each) => {
    const style = getComputedStyle(each);
    const hides = (overflow) => overflow === "hidden" || overflow === "clip";
    if (each.closest("svg") || !each.checkVisibility()) return false;
    for (let at = each; at; at = at.parentElement) if (getComputedStyle(at).clipPath !== "none") return false;
    return (hides(style.overflowX) && each.scrollWidth > each.clientWidth + 1)
        || (hides(style.overflowY) && each.scrollHeight > each.clientHeight + 1);
}).map((each) => `cut off: ${each.outerHTML.slice(0, 150)}`)"""
"""Elements that hide a part of what they hold."""


class Tab:
    """A page in a context of its own. ``page`` is that of Playwright.

    The strict policy of the pages forbids to compile code: never ``wait_for_function``, never a string for
    ``evaluate`` but ``"() => …"``. ``expected`` are patterns of console errors and failed requests that a test causes.
    """

    def __init__(
        self, browser: Any, root: str, *, width: int, dark: bool, script: bool, **options: Any
    ) -> None:  # Any: Playwright may not be installed
        self.root = root
        self.expected: list[str] = []
        self.allowed: list[str] = []
        """Beginnings of addresses outside that a test leads to."""
        self.held: list[Any] = []
        """Requests that a test lets wait until the end."""
        self._faults: list[str] = []
        self.context = browser.new_context(
            base_url=root,
            viewport={"width": width, "height": HEIGHTS.get(width, 900)},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            **options,
        )
        self.context.set_default_timeout(30_000)
        self.context.on("request", self._note_request)
        self.page = self.context.new_page()
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self._faults.append(f"page error: {error}"))
        self.page.on("requestfailed", self._note_failed)
        self.page.on("dialog", self._note_dialog)

    def open(self, path: str) -> Any:
        """The response to a path."""
        return self.page.goto(path)

    def expect(self, *patterns: str) -> None:
        """What the test causes on purpose is no fault."""
        self.expected += patterns

    def find_violations(self) -> list[str]:
        """What axe finds against the rules of WCAG 2.2 A and AA, one line each."""
        from axe_playwright_python.sync_playwright import Axe

        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(Axe().axe_script)
        # All else that axe has found, the rules that hold and where, is ten times as much and not worth its way.
        look = "options => axe.run(options).then(found => found.violations)"
        options = {
            "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
            "resultTypes": ["violations"],
        }
        violations = self.page.evaluate(look, options)
        return [f"{each['id']}: {node['html'][:200]}" for each in violations for node in each["nodes"]]

    def measure_overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        width: int = self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        return width

    def find_losses(self) -> list[str]:
        """What cannot be read or reached at 320 pixels, nor with text of twice its size; the window stays so."""
        self.page.set_viewport_size({"width": 320, "height": HEIGHTS[320]})
        losses = [f"at 320 pixels: {each}" for each in self._find_cut()]
        self.page.set_viewport_size({"width": 1280, "height": 900})
        self.page.evaluate("() => { document.documentElement.style.fontSize = '200%'; }")
        return losses + [f"with large text: {each}" for each in self._find_cut()]

    def _find_cut(self) -> list[str]:
        over = self.measure_overflow()
        cut: list[str] = self.page.evaluate(FIND_CUT)
        return ([f"{over} pixels too wide"] if over > 0 else []) + cut

    def close(self) -> list[str]:
        """The faults that nobody expected."""
        for route in self.held:
            route.abort("aborted")
        self.held.clear()
        self.context.close()
        return [fault for fault in self._faults if not any(re.search(pattern, fault) for pattern in self.expected)]

    def _note_request(self, request: Any) -> None:
        # Noted, not intercepted: a context that intercepts has no cache, and asks for every script with every page.
        if not request.url.startswith((self.root, "data:", *self.allowed)):
            self._faults.append(f"foreign address: {request.url}")

    def _note_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._faults.append(f"console: {message.text} {message.location.get('url', '')}")

    def _note_failed(self, request: Any) -> None:
        reason = request.failure or ""
        if "ERR_ABORTED" not in reason:  # the tab went on to another page
            self._faults.append(f"failed: {request.url} {reason}")

    def _note_dialog(self, dialog: Any) -> None:
        self._faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()
