"""The example documents are sound, belong together, and ask for what the comments say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.engines.simulated.behaviour import parse_expect
from steelyard.identity.actor import SYSTEM
from steelyard.services.documents import parse_documents
from steelyard.services.live_load import SnapshotSource
from steelyard.services.workload_document import parse_workload
from steelyard.services.workloads import Desk
from steelyard.store.store import Store
from tests.support.stores import apply

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "minimal"
DECLARED = ("clusters", "pools", "organisation", "policy")
WORKLOADS = sorted(p.stem for p in FOLDER.glob("*.yaml") if p.stem not in DECLARED)


def read(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def test_every_document_is_sound_and_in_the_table_of_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for path in FOLDER.glob("*.yaml"):
        assert f"`{path.name}`" in readme
    for name in DECLARED:
        parse_documents(read(name))
    for name in WORKLOADS:
        (document,) = read(name)
        for role in parse_workload(document, lambda _name, _version: None).roles:
            parse_expect(role.expect)


def test_they_apply_in_the_order_of_the_readme_and_route_every_workload(store: Store) -> None:
    for name in DECLARED:
        apply(store, *read(name))
    desk = Desk(store, SnapshotSource())
    for name in WORKLOADS:
        (document,) = read(name)
        planned = desk.plan(SYSTEM, document)
        # there are no devices yet, so each is turned away for that, and for nothing about its route
        assert {reason.code for reason in getattr(planned, "reasons", ())} <= {
            "no-matching-flavor",
            "exceeds-capacity",
            "exceeds-max-quota",
        }


@pytest.mark.parametrize("name", ["train", "serve"])
def test_the_real_ones_run_on_this_machine_s_cpu(name: str) -> None:
    (document,) = read(name)
    (role,) = parse_workload(document, lambda _name, _version: None).roles
    assert role.request.clusters == ("this-machine",)
    assert {device_class.value for device_class, _ in role.request.amounts} == {"cpu", "memory"}


def test_those_of_each_kind_are_sound_and_in_the_table_of_their_readme() -> None:
    folder = FOLDER.parent / "kinds"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    found = sorted(folder.glob("*.yaml"))
    assert len(found) >= 4
    for path in found:
        assert f"`{path.name}`" in readme
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            for role in parse_workload(document, lambda _name, _version: None).roles:
                parse_expect(role.expect)
