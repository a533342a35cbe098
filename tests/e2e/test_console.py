"""Pages in a real browser: looked at in every language, theme and width; and used without script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.console.cookies import LANGUAGE, SESSION, THEME
from tests.e2e.pages import OPEN, PAGES, STATUS
from tests.support.browser import Watch, chromium, save
from tests.support.console_world import World

LANGUAGES = ("zh", "en")
THEMES = ("light", "dark")
WIDTHS = (390, 1440)
#: Text of the page without what is a name, an id or a program's, each text node a line.
TEXTS = """() => {
  const lines = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!parent || parent.closest("[translate=no], code, pre, script, style, textarea, time")) continue;
    const text = walker.currentNode.textContent.trim();
    if (text) lines.push(text);
  }
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder]")) {
    if (element.closest("[translate=no], time")) continue;
    for (const name of ["aria-label", "title", "placeholder"]) {
      if (element.getAttribute(name)) lines.push(element.getAttribute(name));
    }
  }
  return lines;
}"""
WIDER = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const right = (element) => Math.round(element.getBoundingClientRect().right);
  return [...document.querySelectorAll("body *")]
    .filter((element) => right(element) > width + 1 && !element.closest(".scroll, pre, .menu"))
    .map((element) => `${element.tagName}.${element.className} ${right(element)}`).slice(0, 5)
    .concat(`scrollWidth ${document.documentElement.scrollWidth}`);
}"""
#: Three words of English in a row are a sentence that nobody translated; names inside sentences are shorter.
ENGLISH = re.compile(r"[A-Za-z]{2,}(?: [a-z]{2,}){2,}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def world(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("console"))
    try:
        yield made.fill()
    finally:
        made.close()


def signed_in(browser: Any, world: World, *, lang: str = "en", theme: str = "light", **options: Any) -> Any:
    """A context with the administrator's session."""
    context = browser.new_context(base_url=world.url, **options)
    token = world.server.client.headers["Authorization"].partition(" ")[2]
    given = {SESSION: token, LANGUAGE: lang, THEME: theme}
    context.add_cookies([{"name": key, "value": value, "url": world.url} for key, value in given.items()])
    return context


def untranslated(page: Any, lang: str) -> list[str]:
    """Texts of the page that are not in its language, or that nobody wrote."""
    lines = page.evaluate(TEXTS)
    found = [f"no text: {line}" for line in lines if "⟦" in line or "{" in line]
    if lang == "zh":
        english = [line for line in lines if ENGLISH.search(line) and not CHINESE.search(line)]
        return found + [f"not in Chinese: {line}" for line in english]
    return found + [f"not in English: {line}" for line in lines if CHINESE.search(line)]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("theme", THEMES)
def test_every_page_is_whole_in_every_language_theme_and_width(
    browser: Any, world: World, lang: str, theme: str
) -> None:
    watch = Watch(world.url.removeprefix("http://"))
    faults: list[str] = []
    context = watch.over(signed_in(browser, world, lang=lang, theme=theme))
    visitor = watch.over(browser.new_context(base_url=world.url))
    visitor.add_cookies(
        [
            {"name": LANGUAGE, "value": lang, "url": world.url},
            {"name": THEME, "value": theme, "url": world.url},
        ]
    )
    for pages, seen in ((PAGES, context), (OPEN, visitor)):
        page = seen.new_page()
        for name, address in pages.items():
            answer = page.goto(address.format(**world.ids), wait_until="domcontentloaded")
            if answer.status != STATUS.get(name, 200):
                faults.append(f"{name}: status {answer.status}")
            faults += [f"{name}: {fault}" for fault in untranslated(page, lang)]
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                faults += [f"{name}: too wide at {width}: {line}" for line in page.evaluate(WIDER)]
                save(page, f"{name}-{lang}-{theme}-{width}")
        seen.close()
    assert faults + watch.found == []
