"""Every page with every role: who is shown it, who is told what is missing, to whom it is not there.

A page that stands in no row of the table fails the test, so that none is ever added without a thought.
`nob` has an account and no binding; the last column is a visitor.
"""

from __future__ import annotations

import pytest

from steelyard.console.app import pages
from tests.support.console import ConsoleHouse

WHO = ["admin", "aud", "ann", "vic", "bob", "nob", None]
#: Everybody who is signed in; visitors are led to the form.
ALL = [200, 200, 200, 200, 200, 200, 303]
#: A preview of it needs the right to ask in its project; of others' projects not even that they are there.
JOB = """
kind: Workload
metadata: {name: walk, namespace: vision-dev}
spec: {kind: training, roles: [{name: main, command: ["true"], requests: {cpu: 1}}]}
"""
GONE = [404, 404, 404, 404, 404, 404, 303]
NO_WORKLOAD = "wl_0000000000000"

# page → (address, form or None, status for each of WHO)
Row = tuple[str, dict[str, str] | None, list[int]]
TABLE: dict[str, Row] = {
    "GET /": ("/", None, ALL),
    "GET /workloads": ("/workloads?phase=live", None, ALL),
    "GET /sign-in": ("/sign-in", None, [303, 303, 303, 303, 303, 303, 200]),
    "POST /sign-in": ("/sign-in", {"name": "nobody", "password": "wrong"}, [401] * 7),
    "GET /password": ("/password", None, ALL),
    "POST /password": ("/password", {"old": "x", "new": "y", "again": "z"}, [422] * 6 + [303]),
    "POST /preferences": ("/preferences", {"theme": "dark", "next": "/"}, [303] * 7),
    **{
        f"GET /workloads/{{workload_id}}{rest}": (f"/workloads/{NO_WORKLOAD}{rest}", None, GONE)
        for rest in ("", "/explanation", "/cancel", "/retry", "/hold", "/release")
    },
    **{
        f"POST /workloads/{{workload_id}}{rest}": (f"/workloads/{NO_WORKLOAD}{rest}", {"a": "b"}, GONE)
        for rest in ("/cancel", "/retry", "/hold", "/release")
    },
    "GET /submit": ("/submit?start=training", None, ALL),
    "POST /submit": ("/submit", {"document": JOB}, [200, 403, 200, 403, 200, 200, 303]),
    "POST /sign-out": ("/sign-out", {}, [303] * 7),
}


def test_every_page_stands_in_the_table() -> None:
    assert {f"{page.method} {page.path}" for page in pages()} == set(TABLE)


@pytest.mark.requirement("I2", "I6")
def test_every_role_gets_from_every_page_what_the_table_says(house: ConsoleHouse) -> None:
    wrong = []
    for key, (address, form, expected) in TABLE.items():
        got = []
        for name in WHO:
            browser = house.anew(name) if key == "POST /sign-out" else house.as_(name)
            answer = (
                browser.get(address)
                if form is None
                else browser.post(address, form, on="/sign-in" if name is None else "/")
            )
            got.append(answer.status_code)
        if got != expected:
            wrong.append((key, got, expected))
    assert wrong == []


def test_no_page_but_those_of_signing_in_is_open_to_visitors(house: ConsoleHouse) -> None:
    shown = {
        page.path
        for page in pages()
        if page.method == "GET" and house.as_(None).get(page.path).status_code == 200
    }
    assert shown == {"/sign-in"}


def test_no_form_is_taken_without_the_token_of_its_session(house: ConsoleHouse) -> None:
    for page in pages():
        if page.method != "POST":
            continue
        browser = house.as_("admin")
        for form in ({"x": "1"}, {"form_token": "0" * 64}):
            assert browser.client.post(page.path, data=form).status_code == 403, page.path
        for site in ("cross-site", "same-site"):
            assert browser.post(page.path, {}, Sec_Fetch_Site=site).status_code == 403, page.path
        assert browser.post(page.path, {}, Origin="http://other.example").status_code == 403, page.path
        assert browser.post(page.path, {}, Origin="null").status_code == 403, page.path


@pytest.mark.parametrize(
    "page",
    ["/", "/sign-in", "/nowhere", "/password"],
)
def test_every_answer_has_the_policy_and_is_not_kept(house: ConsoleHouse, page: str) -> None:
    headers = house.as_("admin").get(page).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Request-Id"].startswith("rq_")
