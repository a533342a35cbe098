"""The distribution's Chromium, driven by Playwright: one browser a run, contexts that note what goes wrong.

Where there is none the test says so and is skipped; with STEELYARD_TEST_REQUIRE_BROWSER=1 it fails instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

REQUIRE_BROWSER = "STEELYARD_TEST_REQUIRE_BROWSER"
NOT_TESTED = "NOT TESTED IN A BROWSER"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def program() -> str | None:
    """The path of a Chromium of this machine."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def _missing() -> str | None:
    try:
        __import__("playwright.sync_api")
    except ImportError:
        return "the package playwright is not installed"
    return None if program() else f"none of {', '.join(PROGRAMS)} is installed"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser (`playwright.sync_api.Browser`) until the end of the block; skips or fails without one."""
    lacking = _missing()
    if lacking is not None:
        text = f"{NOT_TESTED}: {lacking}"
        if os.environ.get(REQUIRE_BROWSER) == "1":
            pytest.fail(f"{text} ({REQUIRE_BROWSER}=1 makes this a failure)", pytrace=False)
        pytest.skip(text)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watch:
    """What a context met that it must not meet: lines of the console, errors of scripts, foreign requests."""

    host: str
    found: list[str] = field(default_factory=list)

    def over(self, context: Any) -> Any:
        """Watch every page of a context; the context."""
        context.on("console", self._said)
        context.on("weberror", lambda error: self.found.append(f"error: {error.error}"))
        context.on("request", self._asked)
        return context

    def _said(self, message: Any) -> None:
        # A page of an error is loaded on purpose by some tests; its status is asserted there.
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            self.found.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self.host:
            self.found.append(f"foreign request: {request.url}")


def save(page: Any, name: str) -> None:
    """A picture of the whole page, where STEELYARD_TEST_PICTURES names a folder."""
    folder = os.environ.get("STEELYARD_TEST_PICTURES")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True, animations="disabled")
