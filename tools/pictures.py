"""The guide's pictures of the console, made anew: `python -m tools.pictures` writes docs/pictures/.

A real server with two simulated clusters is filled with work of every kind for a minute and looked at, in
both languages, by the distribution's Chromium. Needs the test tools.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from steelyard.console.cookies import LANGUAGE, SESSION, THEME
from tests.support.browser import chromium
from tests.support.console_world import GPU, World

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
#: name → (address, theme, height of the window).
PICTURES = {
    "overview": ("/", "light", 860),
    "failed": ("/workloads/{out-of-memory}", "light", 860),
    "usage": ("/usage?span=today", "dark", 860),
}
SECONDS = 60
ENDS: list[dict[str, str]] = [
    {},
    {},
    {},
    {"exit": "1"},
    {},
    {},
    {"oom": "true"},
    {},
    {},
    {"signal": "11"},
    {},
]


def busy(world: World) -> None:
    """Small work of many kinds, for a while."""
    kinds = ("training", "batch", "evaluation", "experiment")
    until, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        kind = kinds[number % len(kinds)]
        ends: dict[str, str] = ENDS[number % len(ENDS)]
        asked: dict[str, Any] = (
            {"requests": GPU} if number % 3 else {"requests": {"cpu": "2", "memory": "2Gi"}}
        )
        namespace = "translate-dev" if number % 4 == 1 else "detect-dev"
        expect = {"run": f"{1 + number % 5}s", **ends}
        world.submit(f"{kind}-{number}", namespace, kind=kind, expect=expect, restart="never", **asked)
        number += 1
        time.sleep(1.5)


def main() -> None:
    """Fill, look, write."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        world = World(Path(folder))
        try:
            world.fill()
            busy(world)
            for number in range(5):
                world.submit(
                    f"sweep-{number}", "translate-dev", requests={**GPU, "gpu": 2}, expect={"run": "60s"}
                )
            time.sleep(2)
            for lang in ("en", "zh"):
                take(browser, world, lang)
        finally:
            world.close()


def take(browser: Any, world: World, lang: str) -> None:
    """Every picture in a language."""
    token = world.server.client.headers["Authorization"].partition(" ")[2]
    for name, (address, theme, height) in PICTURES.items():
        context = browser.new_context(base_url=world.url, viewport={"width": 1280, "height": height})
        given = {SESSION: token, LANGUAGE: lang, THEME: theme}
        context.add_cookies([{"name": key, "value": value, "url": world.url} for key, value in given.items()])
        page = context.new_page()
        page.goto(address.format(**world.ids))
        page.screenshot(path=str(FOLDER / f"{name}-{lang}.png"))
        context.close()


if __name__ == "__main__":
    main()
