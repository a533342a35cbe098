"""What stands beside devices and proves nothing: documents, entry points; the workload register; what became
of every device that was found."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.console.inventory import one_of
from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.identity.authorise import authorise
from steelyard.model.organisation import Verb
from steelyard.model.resources import RegistrationOutcome
from steelyard.services import declared, register
from steelyard.services.kinds import Kind
from steelyard.services.registrations import list_registrations

REGISTRATIONS_A_PAGE = 50


def support_page(visit: Visit) -> Response:
    """Support documents, extensions, sources of observation."""
    authorise(visit.principal, Verb.VIEW, "supportdocument")
    store, who = visit.console.store, visit.principal
    kinds = (Kind.SUPPORT_DOCUMENT, Kind.EXTENSION, Kind.OBSERVATION_SOURCE)
    found = {kind: declared.list_objects(store, who, kind.value) for kind in kinds}
    return visit.show(
        "support.html",
        documents=found[Kind.SUPPORT_DOCUMENT],
        extensions=found[Kind.EXTENSION],
        sources=found[Kind.OBSERVATION_SOURCE],
    )


def register_page(visit: Visit) -> Response:
    """Every entry with its answer and what each pool says."""
    return visit.show("register.html", entries=register.list_all(visit.console.store, visit.principal))


def registration_page(visit: Visit) -> Response:
    """What became of every device that was found, the newest first."""
    asked = one_of(visit.asked("outcome"), [each.value for each in RegistrationOutcome])
    outcome = None if asked is None else RegistrationOutcome(asked)
    rows, following = list_registrations(
        visit.console.store, visit.principal, outcome=outcome, cursor=visit.asked("cursor", 40) or None,
        limit=REGISTRATIONS_A_PAGE,
    )  # fmt: skip
    return visit.show(
        "registrations.html",
        rows=rows,
        following=following,
        outcome=asked,
        outcomes=[each.value for each in RegistrationOutcome],
    )


PAGES = [
    Page("GET", "/support", support_page),
    Page("GET", "/register", register_page),
    Page("GET", "/registrations", registration_page),
]
