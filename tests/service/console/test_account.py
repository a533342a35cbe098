"""Signing in and out, the cookie, where one is led, and the password that must be changed."""

from __future__ import annotations

import pytest

from steelyard.console.cookies import SESSION
from steelyard.console.guard import local_path
from steelyard.console.speech import zone_names
from steelyard.identity.actor import SYSTEM
from steelyard.services.users import create_user
from tests.support.console import Browser, ConsoleHouse


def sign_in(browser: Browser, name: str, password: str) -> None:
    answer = browser.post("/sign-in", {"name": name, "password": password}, on="/sign-in")
    assert answer.status_code == 303


def newcomer(house: ConsoleHouse, name: str) -> str:
    """A fresh account's one-time password."""
    return create_user(house.store, SYSTEM, name).password


def test_signing_in_gives_a_cookie_that_no_script_and_no_other_site_gets(house: ConsoleHouse) -> None:
    browser = house.as_(None)
    answer = browser.post(
        "/sign-in", {"name": "admin", "password": house.admin_password, "next": "/workloads"}, on="/sign-in"
    )
    assert (answer.status_code, answer.headers["Location"]) == (303, "/workloads")
    cookie = next(line for line in answer.headers.get_list("set-cookie") if line.startswith(SESSION))
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert "Domain" not in cookie
    assert "Secure" not in cookie


def test_where_the_console_is_served_by_https_the_cookie_is_secure_and_of_this_host(
    house: ConsoleHouse,
) -> None:
    browser = house.as_(None)
    browser.client.base_url = "https://testserver"  # type: ignore[assignment]
    answer = browser.post("/sign-in", {"name": "admin", "password": house.admin_password}, on="/sign-in")
    cookie = next(line for line in answer.headers.get_list("set-cookie") if SESSION in line)
    assert cookie.startswith(f"__Host-{SESSION}=")
    assert "Secure" in cookie


def test_a_one_time_password_leads_to_its_change_before_anything_else(house: ConsoleHouse) -> None:
    browser, password = house.as_(None), newcomer(house, "eve")
    sign_in(browser, "eve", password)
    assert browser.get("/").headers["Location"] == "/password"
    page = browser.get("/password")
    assert "one-time password" in page.text
    form = {"old": password, "new": "a-long-password-of-mine", "again": "a-long-password-of-mine"}
    assert browser.post("/password", {**form, "again": "another"}, on="/password").status_code == 422
    assert browser.post("/password", {**form, "old": "wrong"}, on="/password").status_code == 422
    assert browser.post("/password", form, on="/password").status_code == 303
    assert browser.get("/").status_code == 200


def test_signing_out_ends_the_session_and_not_only_its_cookie(house: ConsoleHouse) -> None:
    browser = house.as_(None)
    sign_in(browser, "admin", house.admin_password)
    secret = browser.client.cookies[SESSION]
    assert browser.post("/sign-out", {}, on="/password").headers["Location"] == "/sign-in"
    assert SESSION not in browser.client.cookies
    browser.client.cookies.set(SESSION, secret)
    assert browser.get("/").headers["Location"] == "/sign-in"


def test_a_refused_sign_in_tells_nothing_but_that_it_is_one(house: ConsoleHouse) -> None:
    texts = set()
    for name in ("admin", "mallory"):
        answer = house.as_(None).post("/sign-in", {"name": name, "password": "wrong"}, on="/sign-in")
        assert answer.status_code == 401
        texts.add(answer.text.split('role="alert"')[1].split("</p>")[0])
    assert len(texts) == 1


def test_a_visitor_is_led_back_to_the_page_that_was_asked_for(house: ConsoleHouse) -> None:
    assert house.as_(None).get("/password?a=1").headers["Location"] == "/sign-in?next=%2Fpassword%3Fa%3D1"


@pytest.mark.parametrize(
    "path",
    [
        "//other.example",
        "https://other.example",
        "/\\other.example",
        "javascript:alert(1)",
        "",
        "x",
        "/a\r\nb",
        "/ b",
    ],
)
def test_nobody_is_led_to_another_place(path: str) -> None:
    assert local_path(path) == "/"


def test_a_local_path_is_led_to() -> None:
    assert local_path("/workloads?phase=queued&q=a%20b") == "/workloads?phase=queued&q=a%20b"


def test_language_theme_and_zone_are_kept_and_shown(house: ConsoleHouse) -> None:
    browser = house.as_("admin")
    zone = zone_names()[-1]  # UTC alone where the machine has no table of zones
    browser.post("/preferences", {"theme": "dark", "zone": zone, "next": "/password"})
    assert 'lang="zh-CN"' in browser.get("/?lang=zh").text
    page = browser.get("/").text
    assert 'lang="zh-CN"' in page
    assert 'data-theme="dark"' in page
    assert f"{zone}</span>" in page


def test_what_is_no_preference_is_not_kept(house: ConsoleHouse) -> None:
    browser = house.as_("admin")
    answer = browser.post("/preferences", {"theme": "<b>", "zone": "../etc", "lang": "xx", "next": "//x"})
    assert answer.headers["Location"] == "/"
    assert "set-cookie" not in answer.headers


def test_the_language_is_the_browsers_where_none_was_chosen(house: ConsoleHouse) -> None:
    assert "登录" in house.as_(None, "zh-CN,zh;q=0.9").get("/sign-in").text
    assert "Sign in" in house.as_(None, "fr").get("/sign-in").text
