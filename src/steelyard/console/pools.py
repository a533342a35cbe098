"""Pools: what each is for, who runs it, whom it lets in, its members, what shuts it; closing and opening."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError
from steelyard.model.organisation import Verb
from steelyard.services import pools
from steelyard.services.written import MAX_REASON

Json = dict[str, Any]
_ACT: Mapping[str, Callable[..., Json]] = {"close": pools.close, "open": pools.open_again}


def pool_list(visit: Visit) -> Response:
    """Every pool in short."""
    return visit.show("pools.html", pools=pools.list_all(visit.console.store, visit.principal))


def pool_page(visit: Visit) -> Response:
    """One pool whole."""
    found = pools.show(visit.console.store, visit.principal, visit.named("pool"))
    return visit.show(
        "pool.html",
        pool=found,
        acts=_acts(visit, found),
        done=visit.asked("done") if visit.asked("done") in _ACT else "",
    )


def may_manage(visit: Visit, noun: str) -> bool:
    """Whether this reader may change such things."""
    try:
        authorise(visit.principal, Verb.MANAGE, noun)
    except ForbiddenError:
        return False
    return True


def _acts(visit: Visit, pool: Json) -> list[str]:
    if not may_manage(visit, pools.NOUN):
        return []
    closed = any(each["cause"] == "operator" for each in pool["shut_by"])
    return [*([] if closed else ["close"]), *([] if pool["open"] else ["open"])]


def _asked(visit: Visit, what: str, failed: str | None, status: int) -> Response:
    authorise(visit.principal, Verb.MANAGE, pools.NOUN)
    found = pools.show(visit.console.store, visit.principal, visit.named("pool"))
    return visit.show(
        "pool_act.html", status, pool=found, act=what, failed=failed, most=MAX_REASON,
        written=visit.form.get("reason", "")[:MAX_REASON],
    )  # fmt: skip


def _confirm(what: str) -> Page:
    def page(visit: Visit) -> Response:
        return _asked(visit, what, None, 200)

    return Page("GET", f"/pools/{{pool}}/{what}", page)


def _act(what: str) -> Page:
    def page(visit: Visit) -> Response:
        name = visit.named("pool")
        try:
            _ACT[what](
                visit.console.store, visit.principal, name, visit.form.get("reason"), origin=visit.origin()
            )
        except (InvalidError, ConflictError) as error:
            visit.note(error)
            return _asked(visit, what, visit.speech.error(error.code, error.params), 422)
        return visit.go(f"/pools/{name}?done={what}")

    return Page("POST", f"/pools/{{pool}}/{what}", page)


PAGES = [
    Page("GET", "/pools", pool_list),
    Page("GET", "/pools/{pool}", pool_page),
    *[_confirm(what) for what in _ACT],
    *[_act(what) for what in _ACT],
]
