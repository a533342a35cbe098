"""The pages of the inventory in a browser: looked at in every language, theme and width, and used for what
somebody wants to know: which devices are down and why, who holds this one, what was there yesterday at noon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.console.cookies import LANGUAGE, SESSION
from tests.e2e.test_console import misshapen, untranslated
from tests.support.browser import Watch, chromium
from tests.support.inventory_floor import InventoryFloor

LANGUAGES = ("zh", "en")
#: `{name}` is the id of that name.
PAGES = {
    "map": "/inventory",
    "map-down": "/inventory?why=missing",
    "map-health": "/inventory?health=degraded&class=gpu",
    "map-not-now": "/inventory?offer=no&class=gpu",
    "node": "/nodes/{n-1}",
    "device-stranger": "/devices/{n-1/gpu-0}",
    "device-gone": "/devices/{n-1/gpu-1}",
    "device-held": "/devices/{n-0/gpu-0}",
    "device-sick": "/devices/{n-0/gpu-3}",
    "device-history": "/devices/{n-1/gpu-3}?of=health",
    "device-flagged": "/devices/{n-1/gpu-2}?done=maintenance",
    "cpu": "/devices/{n-0/cpu}",
    "drain": "/places/{n-0}/drain",
    "maintenance": "/places/{n-0/gpu-0}/maintenance",
    "uncordon": "/places/{n-1/gpu-2}/uncordon",
    "fence": "/places/{n-0/gpu-0}/fence",
    "flags": "/flags",
    "past-form": "/inventory/past",
    "past": "/inventory/past?at=2027-01-15T12:00&pool=accelerators",
    "past-nothing": "/inventory/past?at=2026-01-15T12:00",
    "past-to-come": "/inventory/past?at=2999-01-15T12:00",
    "changes": "/inventory/changes?from=2027-01-15T12:00",
    "pools": "/pools",
    "pool": "/pools/accelerators",
    "pool-shut": "/pools/cores",
    "pool-close": "/pools/accelerators/close",
    "labels": "/labels",
    "label": "/labels?key=zone",
    "admissions": "/admissions",
    "admission": "/admissions/{admission}",
    "verifications": "/verifications",
    "support": "/support",
    "register": "/register",
    "registrations": "/registrations",
}
STATUS = {"past-to-come": 422}
WORDS = {
    "en": {"inventory": "Inventory", "past": "A past instant", "show": "Show"},
    "zh": {"inventory": "资源", "past": "历史时刻", "show": "查看"},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def floor(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InventoryFloor]:
    made = InventoryFloor(tmp_path_factory.mktemp("floor"))
    try:
        yield made.fill()
    finally:
        made.close()


def reader(browser: Any, floor: InventoryFloor, lang: str, *, script: bool = True) -> Any:
    """A context with the administrator's session."""
    context = browser.new_context(
        base_url=floor.url, java_script_enabled=script, reduced_motion="reduce"
    )
    context.add_cookies(
        [
            {"name": LANGUAGE, "value": lang, "url": floor.url},
            {"name": SESSION, "value": floor.secret, "url": floor.url},
        ]
    )
    return context


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_page_is_whole_in_every_language_theme_and_width(
    browser: Any, floor: InventoryFloor, lang: str
) -> None:
    watch = Watch(floor.url.removeprefix("http://"))
    context = reader(browser, floor, lang)
    page = watch.over(context).new_page()
    faults: list[str] = []
    for name, address in PAGES.items():
        answer = page.goto(address.format(**floor.ids), wait_until="domcontentloaded")
        if answer.status != STATUS.get(name, 200):
            faults.append(f"{name}: status {answer.status}")
        faults += [f"{name}: {fault}" for fault in untranslated(page, lang)]
        faults += [f"{name}: {fault}" for fault in misshapen(page, f"{name}-{lang}")]
    context.close()
    assert faults + watch.found == []


class Clicks:
    """Somebody without script who begins at home, and how often was clicked."""

    def __init__(self, page: Any, lang: str) -> None:
        self.page, self.words, self.count = page, WORDS[lang], 0
        page.goto("/")

    def click(self, selector: str) -> Clicks:
        """One click."""
        self.count += 1
        self.page.click(selector)
        return self

    def menu(self) -> Clicks:
        """To the inventory."""
        return self.click(f".menu a:text-is('{self.words['inventory']}')")

    def reads(self, selector: str = "main") -> str:
        """What stands there."""
        return str(self.page.inner_text(selector))


@pytest.mark.requirement("B19")
@pytest.mark.parametrize("lang", LANGUAGES)
def test_which_are_down_who_holds_this_one_and_what_was_there_yesterday_at_noon_within_four_clicks(
    browser: Any, floor: InventoryFloor, lang: str
) -> None:
    context = reader(browser, floor, lang, script=False)
    page = context.new_page()
    down = Clicks(page, lang).menu()
    said = down.reads("#down")
    for expected in ("n-1/gpu-1", "n-1/gpu-0", "python", "firmware update, ticket 17"):
        assert expected in said
    assert {"en": "missing", "zh": "设备消失"}[lang] in said
    assert {"en": "in maintenance", "zh": "维护中"}[lang] in said
    held = Clicks(page, lang).menu().click(f"#map a[href='/devices/{floor.ids['n-0/gpu-0']}']")
    assert "detector" in held.reads("#now")
    past = Clicks(page, lang).menu().click(f".tabs a:text-is('{WORDS[lang]['past']}')")
    page.select_option("select[name=pool]", "accelerators")
    past.count += 1
    past.click("form.filters button")
    told = past.reads()
    assert "2027-01-15 12:00:00" in told
    assert {"en": "This is the past", "zh": "这是历史"}[lang] in told
    assert "fan is loud" in told
    assert "12 volatile uncorrected" in told
    assert "firmware update" not in told
    assert max(down.count, held.count, past.count) <= 4
    context.close()


def test_without_script_a_card_is_cordoned_with_its_reason_and_given_back(
    browser: Any, floor: InventoryFloor
) -> None:
    context = reader(browser, floor, "en", script=False)
    page = context.new_page()
    place = floor.ids["n-0/gpu-2"]
    page.goto(f"/devices/{place}")
    page.click(f"a[href='/places/{place}/cordon']")
    page.fill("input[name=reason]", "smells of smoke")
    page.click("main button")
    assert "smells of smoke" in page.inner_text("#history")
    page.goto("/flags")
    page.click(f"a[href='/places/{place}/uncordon']")
    page.fill("input[name=reason]", "it was the toaster")
    page.click("main button")
    assert "it was the toaster" in page.inner_text("#history")
    page.goto("/inventory/changes?of=flag")
    assert "it was the toaster" in page.inner_text("#main")
    context.close()
