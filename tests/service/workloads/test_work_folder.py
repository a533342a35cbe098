"""Work folders in documents: limits are read strictly, and written back as they were."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.model.errors import InvalidError
from steelyard.model.workloads import WorkloadSpec
from steelyard.services.documents import parse_documents
from steelyard.services.workload_document import parse_workload


def workload(**spec: Any) -> WorkloadSpec:
    role = {"name": "main", "command": ["true"], "requests": {"cpu": 1}, **spec.pop("role", {})}
    document = {"kind": "Workload", "metadata": {"name": "run", "namespace": "dev"},
                "spec": {"kind": "batch", "roles": [role], **spec}}  # fmt: skip
    return parse_workload(document, lambda _name, _version: None)


def cluster(**spec: Any) -> Any:
    document = {"kind": "Cluster", "metadata": {"name": "here"}, "spec": {"engine": "local", **spec}}
    return parse_documents([document])[0].spec


@pytest.mark.parametrize(("limit", "mib"), [("10Gi", 10_240), (512, 512), ("1Mi", 1)])
def test_a_workload_may_limit_its_members_work_folders(limit: object, mib: int) -> None:
    assert workload(workFolder={"sizeLimit": limit}).work_limit == mib
    assert workload().work_limit is None


@pytest.mark.parametrize(
    ("folder", "path"),
    [({"sizeLimit": "0"}, "spec.workFolder.sizeLimit"), ({"sizeLimit": "x"}, "spec.workFolder.sizeLimit"),
     ({"size": "1Gi"}, "spec.workFolder.size"), ([], "spec.workFolder")],
)  # fmt: skip
def test_a_limit_that_can_not_be_meant_is_refused_with_its_path(folder: object, path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        workload(workFolder=folder)
    assert refused.value.params["path"] == path


@pytest.mark.parametrize("entry", ["python:x; import os", "lib:/etc/passwd", "class:tpu", "image:x"])
def test_a_requirement_in_any_other_form_is_refused_with_its_path(entry: str) -> None:
    with pytest.raises(InvalidError) as refused:
        workload(role={"requires": ["sh", entry]})
    assert refused.value.params["path"] == "spec.roles[0].requires[1]"


def test_a_cluster_of_this_machine_has_a_default_and_a_floor() -> None:
    spec = cluster(workFolder={"sizeLimit": "2Gi", "minFree": "512Mi"})
    assert (spec.work_limit, spec.min_free) == (2048, 512)
    assert cluster(**{key: value for key, value in spec.to_spec().items() if key != "engine"}) == spec
    assert "workFolder" not in cluster().to_spec()
    with pytest.raises(InvalidError):
        cluster(workFolder={"most": 1})
