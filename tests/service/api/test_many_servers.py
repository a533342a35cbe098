"""Two servers on one database: what was asked of one is known to the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.api import events
from steelyard.api.app import create_app
from steelyard.api.context import Services
from steelyard.store.store import Store
from tests.service.api.conftest import Api, ApiHouse
from tests.support.stores import apply, doc

STREAM = "/v1/events/stream?seconds=0"


@pytest.fixture
def other(house: ApiHouse) -> Iterator[Api]:
    """A client of a second server on the same database."""
    store = house.services.store
    second = Store(store.engine.url.render_as_string(hide_password=False), store.now)
    second.start()
    services = Services.over(second)
    yield Api(create_app(services), house.secrets["admin"])
    services.attempts.close()
    second.close()


def told(text: str) -> list[tuple[int | None, str, Any]]:
    """(id, event, data) of a stream."""
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        number = int(fields["id"]) if "id" in fields else None
        found.append((number, fields["event"], json.loads(fields["data"])))
    return found


def test_a_reader_goes_on_at_another_server_where_it_was_cut_off(house: ApiHouse, other: Api) -> None:
    admin = house.as_("admin")
    ((last, name, _), end) = told(admin("GET", STREAM).text)
    assert (name, end[1]) == ("hello", "end")
    apply(house.services.store, doc("Team", "gamma"), doc("Team", "delta"))
    found = told(other("GET", STREAM, Last_Event_ID=str(last)).text)
    changes = [(number, data["id"]) for number, event, data in found if event == "change"]
    assert [name for _, name in changes] == ["delta", "gamma"]
    again = told(admin("GET", STREAM, Last_Event_ID=str(changes[0][0])).text)
    assert [data["id"] for _, event, data in again if event == "change"] == ["gamma"]
    assert told(other("GET", f"{STREAM}&after={changes[1][0]}").text)[1][1] == "end"


def test_a_reader_that_was_away_too_long_is_told_to_read_anew(
    house: ApiHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_MISSED", 3)
    found = told(house.as_("admin")("GET", STREAM, Last_Event_ID="1").text)
    assert [event for _, event, _ in found] == ["hello", "dropped"]


def test_what_no_event_ever_had_begins_anew(house: ApiHouse) -> None:
    for given in ("x", "9" * 40, "-5", "99999999"):
        found = told(house.as_("admin")("GET", STREAM, Last_Event_ID=given).text)
        assert [event for _, event, _ in found] == ["hello", "end"]


def test_a_request_sent_again_to_another_server_is_answered_as_before(house: ApiHouse, other: Api) -> None:
    body = {"documents": [doc("Team", "once")]}
    first = house.as_("admin")("POST", "/v1/objects:apply", body, Idempotency_Key="k1")
    size = house.services.store.writer.state.size
    second = other("POST", "/v1/objects:apply", body, Idempotency_Key="k1")
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    with house.services.store.read() as view:
        assert view.exec_driver_sql("SELECT size FROM log").scalar() == size


def test_streams_end_when_the_server_is_told_to_stop(house: ApiHouse) -> None:
    house.services.stopping.set()
    found = told(house.as_("admin")("GET", "/v1/events/stream?seconds=60").text)
    assert found[-1][1:] == ("end", {"code": "server-stopping"})
