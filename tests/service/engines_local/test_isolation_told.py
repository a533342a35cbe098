"""What a real server says of isolation: in the log entries of a start and of a cluster, inventory, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local.isolation import ASPECTS
from steelyard.model.errors import InvalidError
from steelyard.services.documents import parse_document, stored_document
from tests.support.books import check_books
from tests.support.server import LOCAL_DOCUMENTS, OPEN_DOCUMENTS, Server
from tests.support.stores import doc


def leaves(server: Server, action: str) -> list[dict[str, Any]]:
    found = server.get("/v1/audit/leaves", limit=500)["items"]
    return [leaf for leaf in found if leaf["action"].startswith(action)]


@pytest.mark.requirement("I12")
def test_the_isolation_of_a_start_and_of_the_cluster_is_in_log_inventory_and_doctor(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    try:
        server.start()
        server.apply(LOCAL_DOCUMENTS)
        found = server.submit("one", ["/bin/sh", "-c", "sleep 0.3"])
        server.wait_for(lambda: server.get(f"/v1/workloads/{found}")["phase"] == "finished")
        (cluster,) = server.get("/v1/inventory/summary")["clusters"]
        told = cluster["isolation"]
        assert sorted([*told["enforced"], *told["not_enforced"]]) == sorted(ASPECTS)
        checks = {check["id"]: check for check in server.get("/v1/doctor")["checks"]}
        said = checks["isolation/here"]
        assert said["params"]["mode"] == told["mode"]
        assert "network" in said["params"]["missing"]
        details = [leaf["detail"] or {} for leaf in leaves(server, "workload.")]
        of_start = [detail["isolation"] for detail in details if "isolation" in detail]
        assert of_start == [{"mode": told["mode"], "not_enforced": sorted(told["not_enforced"])}]
        if told["mode"] != "none":
            server.apply(OPEN_DOCUMENTS)
            server.wait_for(lambda: leaves(server, "cluster.described"))
            (cluster,) = server.get("/v1/inventory/summary")["clusters"]
            assert (cluster["isolation"]["mode"], cluster["isolation"]["enforced"]) == ("none", [])
        check_books(server)
    finally:
        server.close()


def test_the_isolation_of_a_cluster_is_read_and_written_back() -> None:
    wish = {"mode": "user-id", "network": "private", "sharedFolders": ["/srv/data"]}
    once = parse_document(doc("Cluster", "here", engine="local", isolation=wish))
    assert once.body["isolation"] == wish
    assert stored_document(once.kind, once.name, {}, once.body) == once


@pytest.mark.parametrize(
    ("engine", "isolation", "path"),
    [
        ("local", {"mode": "jail"}, "spec.isolation.mode"),
        ("local", {"network": "vpn"}, "spec.isolation.network"),
        ("local", {"mode": "none", "network": "private"}, "spec.isolation.network"),
        ("local", {"sharedFolders": ["/srv", "data"]}, "spec.isolation.sharedFolders[1]"),
        ("local", {"sharedFolders": ["/"]}, "spec.isolation.sharedFolders[0]"),
        ("local", {"sharedFolders": ["/srv/../root"]}, "spec.isolation.sharedFolders[0]"),
        ("local", {"user": 0}, "spec.isolation.user"),
        ("simulated", {"mode": "none"}, "spec.isolation"),
    ],
)
def test_an_isolation_that_means_nothing_is_refused_with_its_path(
    engine: str, isolation: dict[str, Any], path: str
) -> None:
    fields: dict[str, Any] = {"engine": engine, "isolation": isolation}
    if engine == "simulated":
        fields["simulation"] = {"nodes": [{"prefix": "n"}]}
    with pytest.raises(InvalidError) as refused:
        parse_document(doc("Cluster", "here", **fields))
    assert refused.value.params["path"] == path
