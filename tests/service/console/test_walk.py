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
NO_WORKLOAD, NO_NODE = "wl_0000000000000", "nd_0000000000000"
NO_ADMISSION, NO_RECORD = "ad_0000000000000", "vr_0000000000000"
#: Of what there is to run on and how it is shared, everybody who is bound anywhere sees something.
BOUND = [200, 200, 200, 200, 200, 403, 303]
#: The log is for auditors. This house has no key: nothing is signed.
AUDITED = [200, 200, 403, 403, 403, 403, 303]
UNSIGNED = [503, 503, 403, 403, 403, 403, 303]
NOT_FOR_ALL = [404, 404, 403, 403, 403, 403, 303]
NOT_THERE = [404, 404, 404, 404, 404, 403, 303]
#: What only administrators may do: they are told what is missing, the others that they may not.
MANAGED = [404, 403, 403, 403, 403, 403, 303]

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
        for rest in ("", "/explanation", "/cancel", "/retry", "/hold", "/release", "/scale", "/log")
    },
    **{
        f"POST /workloads/{{workload_id}}{rest}": (f"/workloads/{NO_WORKLOAD}{rest}", {"a": "b"}, GONE)
        for rest in ("/cancel", "/retry", "/hold", "/release")
    },
    "POST /workloads/{workload_id}/scale": (f"/workloads/{NO_WORKLOAD}/scale", {"replicas": "2"}, GONE),
    "GET /submit": ("/submit?start=training", None, ALL),
    "POST /submit": ("/submit", {"document": JOB}, [200, 403, 200, 403, 200, 200, 303]),
    "GET /inventory": ("/inventory?class=gpu&state=free&page=9", None, BOUND),
    "GET /inventory/past": ("/inventory/past?at=2024-06-01T12:00&class=gpu", None, BOUND),
    "GET /inventory/changes": ("/inventory/changes?of=flag", None, BOUND),
    "GET /flags": ("/flags", None, BOUND),
    "GET /places/{place}/{act}": (f"/places/{NO_NODE}/drain", None, MANAGED),
    "POST /places/{place}/{act}": (f"/places/{NO_NODE}/cordon", {"reason": "x"}, MANAGED),
    "GET /pools": ("/pools", None, BOUND),
    "GET /pools/{pool}": ("/pools/nothing", None, NOT_THERE),
    **{f"GET /pools/{{pool}}/{do}": (f"/pools/nothing/{do}", None, MANAGED) for do in ("close", "open")},
    **{
        f"POST /pools/{{pool}}/{do}": (f"/pools/nothing/{do}", {"reason": "x"}, MANAGED)
        for do in ("close", "open")
    },
    "GET /labels": ("/labels?key=zone", None, BOUND),
    "GET /admissions": ("/admissions", None, BOUND),
    "POST /admissions": (
        "/admissions",
        {"class": "gpu", "family": "f", "model": "m", "reason": "x"},
        [303, 403, 403, 403, 403, 403, 303],
    ),
    "GET /admissions/{admission}": (f"/admissions/{NO_ADMISSION}", None, NOT_THERE),
    "POST /admissions/{admission}/steps/{step}": (
        f"/admissions/{NO_ADMISSION}/steps/owner",
        {"owner": "a", "on_call": "b"},
        MANAGED,
    ),
    "POST /admissions/{admission}/finish": (f"/admissions/{NO_ADMISSION}/finish", {}, MANAGED),
    "GET /verifications": ("/verifications", None, BOUND),
    "GET /verifications/{verification}": (f"/verifications/{NO_RECORD}", None, NOT_THERE),
    "POST /verifications/{verification}/end": (
        f"/verifications/{NO_RECORD}/end",
        {"reason": "x"},
        MANAGED,
    ),
    "GET /support": ("/support", None, BOUND),
    "GET /register": ("/register", None, BOUND),
    "GET /registrations": ("/registrations?outcome=refused", None, BOUND),
    "GET /nodes/{node}": (f"/nodes/{NO_NODE}", None, NOT_THERE),
    "GET /devices/{device:path}": ("/devices/here/nothing", None, NOT_THERE),
    "GET /queues/{queue}": ("/queues/nothing", None, NOT_THERE),
    "GET /queues": ("/queues", None, BOUND),
    "GET /what-if": ("/what-if?end=x", None, ALL),
    "POST /what-if": ("/what-if", {"cordon": "none"}, [404, 404, 403, 403, 403, 403, 303]),
    "GET /refusals": ("/refusals", None, ALL),
    "GET /usage": ("/usage?span=week&by=team", None, BOUND),
    "GET /usage/report.json": ("/usage/report.json", None, BOUND),
    "GET /usage/report.csv": ("/usage/report.csv?by=team", None, BOUND),
    "GET /failures": ("/failures?span=month&order=newest&stage=launch", None, ALL),
    "GET /system": ("/system", None, AUDITED),
    "GET /evidence": ("/evidence", None, AUDITED),
    "GET /evidence/streams": ("/evidence/streams?kind=actor", None, AUDITED),
    "GET /evidence/leaves": ("/evidence/leaves?stream=system", None, AUDITED),
    "GET /evidence/leaves/{seq}": ("/evidence/leaves/0", None, AUDITED),
    "GET /evidence/leaves/{seq}/record.json": ("/evidence/leaves/0/record.json", None, AUDITED),
    "GET /evidence/leaves/{seq}/proof.txt": ("/evidence/leaves/0/proof.txt", None, UNSIGNED),
    "GET /evidence/checkpoint.txt": ("/evidence/checkpoint.txt", None, UNSIGNED),
    "GET /evidence/consistency": ("/evidence/consistency?from=0&to=0", None, NOT_FOR_ALL),
    "POST /evidence/checks": ("/evidence/checks", {}, AUDITED),
    "POST /evidence/bundle": ("/evidence/bundle", {}, UNSIGNED),
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
