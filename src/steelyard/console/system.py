"""The installation itself: the doctor's checks, what each cluster's engine can do, versions, who leads."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.locale import text
from steelyard.services import doctor, system


def system_page(visit: Visit) -> Response:
    """Checks first, those that fail before the others."""
    console, who = visit.console, visit.principal
    described = system.describe(console.store, who, console.engines)
    found = doctor.examine(console.store, who, console.engines, console.extra.get("folder"), console.signer)
    rank = {False: 0, None: 1, True: 2}
    checks = [
        (check.id, check.ok, text(f"doctor.{check.code}", check.params, visit.speech.lang))
        for check in sorted(found, key=lambda check: rank[check.ok])
    ]
    return visit.show("system.html", checks=checks, system=described)


PAGES = [Page("GET", "/system", system_page)]
