"""Where a request came from stands in leaves as salted hashes that can be opened, or erased."""

from __future__ import annotations

import msgspec
from sqlalchemy import select

from steelyard.evidence.confidential import reveals
from steelyard.evidence.leaf import ActorRef, LeafDraft, Origin
from steelyard.store import leaves
from steelyard.store import tables as t
from steelyard.store.store import Store
from steelyard.store.unit import Unit


def _leaf(store: Store, address: str) -> dict[str, str]:
    origin = Origin(ip=store.writer.secrets.conceal(address), request_id="rq_0")
    unit = Unit(ActorRef("us_x"))
    unit.leaf(LeafDraft("test.act", "log", "log", origin=origin))
    store.writer.write(unit)
    with store.read() as view:
        body = leaves.leaf_body(view, unit.first_seq)
    assert body is not None
    assert address.encode() not in body
    return dict(msgspec.json.decode(body)["origin"]["ip"])


def test_an_address_is_opened_by_the_row_of_the_same_transaction(store: Store) -> None:
    concealed = _leaf(store, "192.0.2.7")
    with store.read() as view:
        row = view.execute(select(t.confidential).where(t.confidential.c.digest == concealed["h"])).one()
    assert reveals(concealed, row.value, bytes(row.salt))


def test_the_same_address_keeps_its_digest_and_another_has_its_own(store: Store) -> None:
    first, again, other = (_leaf(store, a) for a in ("192.0.2.7", "192.0.2.7", "192.0.2.8"))
    assert first == again != other
    with store.read() as view:
        assert len(view.execute(select(t.confidential)).all()) == 2
