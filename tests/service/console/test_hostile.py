"""Names and texts that others gave are shown as text, whatever they hold."""

from __future__ import annotations

import pytest

from tests.support.console_floor import Floor

SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    "place",
    [
        f"/evidence/leaves?stream={SCRIPT}",
        f"/evidence/streams?q={SCRIPT}&after={SCRIPT}",
        f"/inventory?cluster={SCRIPT}&pool={SCRIPT}",
        f"/usage?from={SCRIPT}&to={SCRIPT}&by={SCRIPT}",
        f"/refusals?project={SCRIPT}",
        f"/devices/{SCRIPT}",
        f"/nodes/{SCRIPT}",
        f"/queues?x={SCRIPT}",
    ],
)
def test_what_stands_in_an_address_is_never_markup(floor: Floor, place: str) -> None:
    page = floor.as_("root").get(place).text
    assert SCRIPT not in page


def test_what_an_engine_says_of_its_devices_is_never_markup(floor: Floor) -> None:
    floor.house.apply(f"""
kind: Cluster
metadata: {{name: hostile}}
spec:
  engine: simulated
  simulation:
    nodes:
    - {{count: 1, prefix: h, cpu: "4", memory: 8Gi,
       devices: [{{class: gpu, family: nvidia, model: "{SCRIPT}", count: 1, memory: 80Gi}}]}}
""")
    floor.house.tick(3)
    browser = floor.as_("root")
    device = next(each for each in floor.devices() if each["model"] == SCRIPT)
    for place in ("/inventory?cluster=hostile", f"/devices/{device['id']}", "/evidence"):
        page = browser.get(place).text
        assert SCRIPT not in page
    assert "&lt;script&gt;" in browser.get(f"/devices/{device['id']}").text
