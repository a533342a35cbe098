"""Nothing can be seen or done in the console alone: every page stands beside its route and its command."""

from __future__ import annotations

import msgspec
import pytest

from steelyard.api.app import OPEN_ROUTERS, ROUTERS
from steelyard.cli.table import COMMANDS
from steelyard.console.app import pages as all_pages
from steelyard.store.leaves import bodies, log_size
from tests.service.api.test_walk import _walk
from tests.support.console import Pages

#: What shows a form, or how pages look.
OF_THE_CONSOLE = {
    "GET /password",
    "GET /sign-in",
    "POST /preferences",
    "GET /places/{place}/{act}",
    *(f"GET /pools/{{pool}}/{do}" for do in ("close", "open")),
    *(f"GET /workloads/{{workload_id}}/{do}" for do in ("cancel", "hold", "release", "retry", "scale")),
}
#: page → (route of the API, command)
SAME: dict[str, tuple[str, str]] = {
    "GET /": ("GET /v1/workloads", "list"),
    "POST /sign-in": ("POST /v1/sessions", "login"),
    "POST /sign-out": ("DELETE /v1/sessions/current", "logout"),
    "POST /password": ("POST /v1/users/{name}/password", "users password"),
    "GET /workloads": ("GET /v1/workloads", "list"),
    "GET /workloads/{workload_id}": ("GET /v1/workloads/{workload_id}", "show"),
    "GET /workloads/{workload_id}/explanation": ("GET /v1/workloads/{workload_id}/explanation", "explain"),
    "GET /workloads/{workload_id}/log": ("GET /v1/workloads/{workload_id}/logs", "logs"),
    **{
        f"POST /workloads/{{workload_id}}/{do}": (f"POST /v1/workloads/{{workload_id}}/{do}", do)
        for do in ("cancel", "hold", "release", "retry", "scale")
    },
    "GET /submit": ("POST /v1/workloads", "submit"),
    "POST /submit": ("POST /v1/workloads", "submit"),
    "GET /inventory": ("GET /v1/inventory", "inventory"),
    "GET /inventory/past": ("GET /v1/inventory", "inventory at"),
    "GET /inventory/changes": ("GET /v1/inventory/diff", "inventory diff"),
    "GET /flags": ("GET /v1/flags", "device flags"),
    "POST /places/{place}/{act}": ("POST /v1/flags", "device cordon"),
    "GET /pools": ("GET /v1/pools", "pool list"),
    "GET /pools/{pool}": ("GET /v1/pools/{name}", "pool show"),
    **{
        f"POST /pools/{{pool}}/{do}": (f"POST /v1/pools/{{name}}/{do}", f"pool {do}")
        for do in ("close", "open")
    },
    "GET /labels": ("GET /v1/labels/lint", "label lint"),
    "GET /admissions": ("GET /v1/admissions", "admission list"),
    "POST /admissions": ("POST /v1/admissions", "admission start"),
    "GET /admissions/{admission}": ("GET /v1/admissions/{admission_id}", "admission show"),
    "POST /admissions/{admission}/steps/{step}": (
        "POST /v1/admissions/{admission_id}/steps/{step}",
        "admission step",
    ),
    "POST /admissions/{admission}/finish": (
        "POST /v1/admissions/{admission_id}/finish",
        "admission finish",
    ),
    "GET /verifications": ("GET /v1/verifications", "verification list"),
    "GET /verifications/{verification}": ("GET /v1/verifications/{verification_id}", "verification show"),
    "POST /verifications/{verification}/end": (
        "POST /v1/verifications/{verification_id}/end",
        "verification end",
    ),
    "GET /support": ("GET /v1/objects", "document list"),
    "GET /register": ("GET /v1/register", "register list"),
    "GET /registrations": ("GET /v1/registrations", "inventory registrations"),
    "GET /nodes/{node}": ("GET /v1/inventory", "inventory"),
    "GET /devices/{device:path}": ("GET /v1/devices/{device_id:path}", "device"),
    "GET /queues": ("GET /v1/queues", "queues"),
    "GET /queues/{queue}": ("GET /v1/queues/{name}/waiting", "queues waiting"),
    "GET /what-if": ("POST /v1/what-if", "what-if"),
    "POST /what-if": ("POST /v1/what-if", "what-if"),
    "GET /refusals": ("GET /v1/refusals", "refusals"),
    "GET /usage": ("GET /v1/usage", "usage"),
    "GET /usage/report.json": ("GET /v1/usage", "usage"),
    "GET /usage/report.csv": ("GET /v1/usage", "usage"),
    "GET /failures": ("GET /v1/failures", "failures"),
    "GET /evidence": ("GET /v1/audit/checkpoint", "audit checkpoint"),
    "GET /evidence/streams": ("GET /v1/audit/leaves", "audit leaves"),
    "GET /evidence/leaves": ("GET /v1/audit/leaves", "audit leaves"),
    "GET /evidence/leaves/{seq}": ("GET /v1/audit/proof/{seq}", "audit leaves"),
    "GET /evidence/leaves/{seq}/record.json": ("GET /v1/audit/leaves", "audit leaves"),
    "GET /evidence/leaves/{seq}/proof.txt": ("GET /v1/audit/proof/{seq}", "audit export"),
    "GET /evidence/checkpoint.txt": ("GET /v1/audit/checkpoint", "audit checkpoint"),
    "GET /evidence/consistency": ("GET /v1/audit/consistency", "audit export"),
    "POST /evidence/checks": ("POST /v1/audit/checks", "audit check"),
    "POST /evidence/bundle": ("POST /v1/audit/bundle", "audit export"),
    "GET /system": ("GET /v1/doctor", "doctor"),
}


@pytest.mark.requirement("A13")
def test_every_page_and_form_has_its_route_and_its_command() -> None:
    known = {
        f"{method} {path}" for router in (*OPEN_ROUTERS, *ROUTERS) for method, path in _walk(router.routes)
    }
    shown = {f"{page.method} {page.path}" for page in all_pages()} - OF_THE_CONSOLE
    assert shown == set(SAME)
    assert {route for route, _ in SAME.values()} - known == set()
    assert {command for _, command in SAME.values()} - set(COMMANDS) == set()


@pytest.mark.requirement("A13")
def test_what_is_done_by_a_form_leaves_the_same_evidence_as_by_the_api(pages: Pages) -> None:
    told = []
    for door in ("console", "api"):
        workload = pages.house.submit("same", hold=True)
        browser, path = pages.as_("root"), f"workloads/{workload}/cancel"
        with pages.house.store.read() as view:
            before = log_size(view)
        if door == "console":
            assert browser.post(f"/{path}", {}).status_code == 303
        else:
            bearer = {"Authorization": f"Bearer {pages.secrets['root']}"}
            assert browser.client.post(f"/v1/{path}", headers=bearer).status_code == 202
        with pages.house.store.read() as view:
            leaves = [msgspec.json.decode(body) for body in bodies(view, before, log_size(view))]
        parts = [(leaf["action"], leaf["actor"], leaf["outcome"], leaf["object"]["kind"]) for leaf in leaves]
        told.append(parts)
    assert told[0] == told[1]
    assert [action for action, *_ in told[0]] == ["workload.withdraw"]
