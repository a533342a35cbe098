"""One address for programs and people."""

from __future__ import annotations

import asyncio

from starlette.types import Message

from tests.support.console import ConsoleHouse


def test_a_program_is_answered_as_a_program_and_a_browser_by_a_page(house: ConsoleHouse) -> None:
    browser = house.as_("admin")
    assert browser.get("/nowhere", Accept="*/*").json()["code"] == "route-unknown"
    assert "<h1>" in browser.get("/nowhere").text
    assert browser.get("/v1/nowhere").json()["code"] == "route-unknown"
    assert browser.get("/healthz").json() == {"status": "ok"}


def test_the_sessions_cookie_opens_the_streams_and_nothing_else_of_the_api(house: ConsoleHouse) -> None:
    browser = house.as_("admin")
    assert browser.get("/v1/events/stream?seconds=0").status_code == 200
    assert browser.get("/v1/workloads").status_code == 401
    assert browser.client.post("/v1/events/stream").status_code in (401, 405)


def test_another_site_opens_no_stream_with_the_cookie(house: ConsoleHouse) -> None:
    browser = house.as_("admin")
    for site in ("cross-site", "same-site", "none"):
        assert browser.get("/v1/events/stream?seconds=0", Sec_Fetch_Site=site).status_code == 401


def test_static_files_are_kept_under_an_address_of_their_bytes(house: ConsoleHouse) -> None:
    browser = house.as_(None)
    page = browser.get("/sign-in").text
    for part in page.split('href="')[1:] + page.split('src="')[1:]:
        address = part.split('"')[0]
        if address.startswith("/static/"):
            answer = browser.get(address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["Cache-Control"]
    for name in ("../app.py", "..%2Fapp.py", "steelyard.py", "x.css"):
        assert browser.get(f"/static/0/{name}").status_code == 404


def test_a_method_that_is_not_for_an_address_gets_a_page_with_the_policy(house: ConsoleHouse) -> None:
    answer = house.as_("admin").client.put("/workloads")
    assert answer.status_code == 405
    assert "GET" in answer.headers["Allow"]
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert house.as_("admin").client.head("/workloads").status_code == 200


def test_a_form_that_is_too_large_or_none_is_turned_away_before_it_is_read(house: ConsoleHouse) -> None:
    client = house.as_("admin").client
    assert client.post("/submit", data={"document": "x" * 1_100_000}).status_code == 413
    assert client.post("/submit", json={"document": "x"}).status_code == 400
    many = "&".join(f"a{number}=1" for number in range(500))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/submit", content=many, headers=form).status_code == 400


def test_a_page_of_an_address_with_two_slashes_leads_to_no_other_host(house: ConsoleHouse) -> None:
    for browser in (house.as_(None), house.as_("admin")):
        address = "http://testserver//elsewhere.example/x"
        page = browser.client.get(address, headers={"Accept": "text/html"}).text
        assert "elsewhere.example" in page
        assert '"//' not in page


def test_an_address_that_is_no_path_is_answered(house: ConsoleHouse) -> None:
    sent: list[str] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(str(message.get("status", "")))

    scope = {
        "type": "http", "method": "OPTIONS", "path": "*", "raw_path": b"*", "query_string": b"",
        "headers": [], "http_version": "1.1", "scheme": "http", "root_path": "",
        "server": ("testserver", 80), "client": ("testclient", 1),
    }  # fmt: skip

    async def ask() -> None:
        await house.as_(None).client.app(scope, receive, send)

    asyncio.run(ask())
    assert sent[0].startswith("4")
