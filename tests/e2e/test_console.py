"""Pages in a real browser: looked at in every language, theme and width; and used without script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.console.cookies import LANGUAGE, SESSION
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
WIDER = """(theme) => {
  document.documentElement.dataset.theme = theme;
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


def visitor(browser: Any, world: World, lang: str) -> Any:
    """A context in which nobody is signed in."""
    context = browser.new_context(base_url=world.url)
    context.add_cookies([{"name": LANGUAGE, "value": lang, "url": world.url}])
    return context


def signed_in(browser: Any, world: World, lang: str = "en") -> Any:
    """A context with the administrator's session."""
    context = visitor(browser, world, lang)
    token = world.server.client.headers["Authorization"].partition(" ")[2]
    context.add_cookies([{"name": SESSION, "value": token, "url": world.url}])
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
def test_every_page_is_whole_in_every_language_theme_and_width(browser: Any, world: World, lang: str) -> None:
    watch = Watch(world.url.removeprefix("http://"))
    faults: list[str] = []
    for pages, seen in ((PAGES, signed_in(browser, world, lang=lang)), (OPEN, visitor(browser, world, lang))):
        page = watch.over(seen).new_page()
        for name, address in pages.items():
            answer = page.goto(address.format(**world.ids), wait_until="domcontentloaded")
            if answer.status != STATUS.get(name, 200):
                faults.append(f"{name}: status {answer.status}")
            faults += [f"{name}: {fault}" for fault in untranslated(page, lang)]
            faults += [f"{name}: {fault}" for fault in misshapen(page, f"{name}-{lang}")]
        seen.close()
    assert faults + watch.found == []


def misshapen(page: Any, picture: str) -> list[str]:
    """What is too wide, in each theme and width; pictures of each where they are asked for."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in THEMES:
            found += [f"too wide at {width} ({theme}): {line}" for line in page.evaluate(WIDER, theme)]
            save(page, f"{picture}-{theme}-{width}")
    return found


def document(name: str) -> str:
    return (
        f"kind: Workload\nmetadata: {{name: {name}, namespace: detect-dev}}\nspec:\n  kind: batch\n  roles:\n"
        "  - {name: main, command: [run], requests: {cpu: 1}, clusters: [other], expect: {run: forever}}\n"
    )


def test_without_script_one_reads_filters_submits_and_cancels(browser: Any, world: World) -> None:
    context = browser.new_context(base_url=world.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/workloads?kind=training")
    page.fill("input[name=name]", "admin")
    page.fill("input[name=password]", world.server.password)
    page.click("main button")
    assert page.url == f"{world.url}/workloads?kind=training"
    page.fill("input[name=q]", "loader")
    page.click("form.filters button")
    assert page.locator("tbody tr").count() == 1
    page.click("tbody a")
    assert "exit code 3" in page.inner_text("main")
    page.goto("/submit")
    page.fill("textarea", document("without-script"))
    page.click("button[value=preview]")
    assert "would start" in page.inner_text("main")
    page.click("button[value=submit]")
    assert "It was submitted" in page.inner_text("main")
    page.click("a.danger")
    page.click("button.danger")
    assert "It was asked to end" in page.inner_text("main")
    world.ids["without-script"] = page.url.split("/")[-1].split("?")[0]
    world.reaches("without-script", "finished")
    page.reload()
    assert "It was cancelled" in page.inner_text("main")
    page.click("summary.tool")
    page.click("form[action='/sign-out'] button")
    assert page.url.endswith("/sign-in")
    context.close()


@pytest.mark.parametrize(("lang", "theme", "width"), [("en", "light", 1440), ("zh", "dark", 390)])
def test_without_script_one_asks_what_would_come_of_a_change(
    browser: Any, world: World, lang: str, theme: str, width: int
) -> None:
    context = browser.new_context(
        base_url=world.url, java_script_enabled=False, color_scheme=theme,
        viewport={"width": width, "height": 900},
    )  # fmt: skip
    token = world.server.client.headers["Authorization"].partition(" ")[2]
    context.add_cookies([{"name": SESSION, "value": token, "url": world.url}])
    context.add_cookies([{"name": LANGUAGE, "value": lang, "url": world.url}])
    page = context.new_page()
    page.goto("/queues")
    page.click("a[href='/what-if']")
    page.fill("input[name=end]", world.ids["train-vit"])
    page.fill("textarea", document("imagined"))
    page.click("form[action='/what-if'] button")
    said = page.inner_text("section.verdict")
    assert "imagined" in said
    assert ("would start" if lang == "en" else "将会启动") in said
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    save(page, f"what-if-answer-{lang}-{theme}-{width}")
    context.close()


def test_without_script_one_narrows_the_map_checks_the_books_and_takes_a_bundle(
    browser: Any, world: World
) -> None:
    context = browser.new_context(base_url=world.url, java_script_enabled=False)
    token = world.server.client.headers["Authorization"].partition(" ")[2]
    context.add_cookies([{"name": SESSION, "value": token, "url": world.url}])
    page = context.new_page()
    page.goto("/inventory")
    page.select_option("select[name=class]", "gpu")
    page.click("form.filters button")
    assert page.locator("#map .cells a").count() == 8
    page.click(f"#map a[href='/devices/{world.ids['gpu']}']")
    assert "train-resnet" in page.inner_text("main") or "train-vit" in page.inner_text("main")
    page.goto("/evidence")
    with page.expect_download() as bundle:
        page.click("form[action='/evidence/bundle'] button")
    assert bundle.value.suggested_filename == "steelyard-evidence.tar"
    page.click("form[action='/evidence/checks'] button")
    assert "Everything holds." in page.inner_text("main")
    page.goto("/usage?span=all")
    assert "does not close" not in page.inner_text("main")
    with page.expect_download() as table:
        page.click("text=CSV")
    assert table.value.suggested_filename == "steelyard-usage.csv"
    context.close()


def appears(page: Any, selector: str, text: str) -> None:
    """Wait until an element holds a text."""
    page.locator(selector).filter(has_text=text).wait_for(timeout=30_000)


def test_pages_and_logs_follow_what_happens_while_they_are_looked_at(browser: Any, world: World) -> None:
    world.submit(
        "followed", requests={"cpu": "1"}, clusters=["other"], expect={"run": "forever"}, kind="batch"
    )
    world.reaches("followed", "running")
    watch = Watch(world.url.removeprefix("http://"))
    context = watch.over(signed_in(browser, world))
    listed, detail = context.new_page(), context.new_page()
    listed.goto("/workloads?q=followed")
    detail.goto(f"/workloads/{world.ids['followed']}")
    listed.bring_to_front()
    assert "running" in listed.inner_text("#rows")
    world.server.post(f"/v1/workloads/{world.ids['followed']}/cancel")
    appears(listed, "#rows", "cancelled")
    appears(detail, "pre.log", "asked to end")
    detail.bring_to_front()
    appears(detail, "#top", "It was cancelled")
    assert watch.found == []
    context.close()


def test_the_keyboard_reaches_the_content_first_and_sees_where_it_is(browser: Any, world: World) -> None:
    context = signed_in(browser, world)
    page = context.new_page()
    page.goto("/workloads")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    context.close()
