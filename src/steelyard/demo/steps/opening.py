"""The house is opened: first login, declared objects, people; and what there is to be given out."""

from __future__ import annotations

import secrets

from steelyard.demo import documents
from steelyard.demo.context import ADMINISTRATOR, LOCAL, PEOPLE, SERVING, SIMULATED, Step, Story
from steelyard.demo.door import Door, every, get, post, wait
from steelyard.demo.expect import Expectation, Found, Json, Seen, found

PARTS = ("held", "free", "reserved", "unavailable", "unknown")


def open_house(story: Story) -> None:
    """Logs in, everybody first with a one-time password that suffices for nothing but a password of one's
    own; declares everything, makes one member for each project."""
    admin = story.doors[ADMINISTRATOR] = story.open_door(ADMINISTRATOR, one_time := story.first_password())
    story.seen["too-early"] = admin.call("GET", "/v1/workloads")
    story.keep_password(_own_password(admin, ADMINISTRATOR, one_time))
    story.seen["version"] = get(story.admin, "/v1/version")
    story.seen["stranger"] = story.open_door("", "").call("GET", "/v1/workloads")[0]
    story.seen["applied"] = story.apply(*documents.declared())
    for name, project in PEOPLE.items():
        person = post(story.admin, "/v1/users", {"name": name})
        story.apply(documents.member(name, project))
        story.doors[name] = story.open_door(name, person["password"])
        _own_password(story.doors[name], name, person["password"])


def _own_password(door: Door, name: str, one_time: str) -> str:
    """Changes the one-time password of whoever came in by the door; the new one."""
    own = secrets.token_urlsafe(18)
    post(door, f"/v1/users/{name}/password", {"old": one_time, "new": own})
    return own


def read_inventory(story: Story) -> None:
    """Waits until both clusters were looked at, then reads everything there is."""

    def look() -> Json | None:
        summary: Json = get(story.admin, "/v1/inventory/summary")
        seen = {cluster["name"] for cluster in summary["clusters"] if cluster["reachable"]}
        classes = {(row["cluster"], row["class"]) for row in summary["classes"]}
        wanted = {(LOCAL, "cpu"), (LOCAL, "memory"), (SIMULATED, "gpu"), (SIMULATED, "npu")}
        wanted.add((SERVING, "other"))
        return summary if {LOCAL, SIMULATED, SERVING} <= seen and wanted <= classes else None

    story.seen["summary"] = wait("inventory of both clusters", look, 30.0)
    story.seen["nodes"] = every(story.admin, "/v1/inventory")


def no_credential(seen: Seen) -> Found:
    """A request without a credential is turned away."""
    return found(seen["stranger"] == 401, "status", status=seen["stranger"])


def own_password(seen: Seen) -> Found:
    """A one-time password opens nothing before it is changed."""
    status, problem = seen["too-early"]
    code = problem.get("code") if isinstance(problem, dict) else None
    return found((status, code) == (403, "password-change-required"), "status", status=status)


def declared(seen: Seen) -> Found:
    """Every declared object came to be."""
    wanted = len(documents.declared())
    made = sum(1 for result in seen["applied"] if result["action"] == "created")
    return found(made == wanted, "applied", made=made, wanted=wanted)


def inventory_complete(seen: Seen) -> Found:
    """Every class of both clusters is there, with its capacity."""
    capacity = {(row["cluster"], row["class"]): row["capacity"] for row in seen["summary"]["classes"]}
    cpu, memory = capacity[LOCAL, "cpu"], capacity[LOCAL, "memory"]
    gpu, npu = capacity[SIMULATED, "gpu"], capacity[SIMULATED, "npu"]
    nodes = len(seen["nodes"])
    other = capacity[SERVING, "other"]
    ok = cpu > 0 and memory > 0 and gpu == 8000 and npu == other == 4000 and nodes == 6
    return found(
        ok, "inventory", nodes=nodes, cpu=cpu // 1000, memory=memory, gpu=gpu // 1000, npu=npu // 1000
    )


def inventory_sums(seen: Seen) -> Found:
    """Of each class and of each device, capacity is the sum of its parts."""
    rows = [*seen["summary"]["classes"], *(device for node in seen["nodes"] for device in node["devices"])]
    wrong = [row for row in rows if "held" in row and not _closes(row)]
    return found(bool(rows) and not wrong, "sums", rows=len(rows), wrong=len(wrong))


def _closes(row: Json) -> bool:
    if any(row.get(part) is None for part in PARTS):  # a device may show less than its class
        return all(row.get(part) is not None for part in ("free", "held"))
    return bool(row["capacity"] == sum(row[part] for part in PARTS)) or row.get("reason") == "partitioned"


def simulated_marked(seen: Seen) -> Found:
    """Simulated devices say so, real ones do not."""
    devices = [(node["cluster"], device) for node in seen["nodes"] for device in node["devices"]]
    right = [device["simulated"] is (cluster != LOCAL) for cluster, device in devices]
    marked = sum(1 for _, device in devices if device["simulated"])
    return found(bool(right) and all(right), "marked", simulated=marked, real=len(devices) - marked)


STEPS = (
    Step(
        "open",
        open_house,
        (
            Expectation("no-credential", ("I2", "I6"), no_credential),
            Expectation("own-password", ("I2",), own_password),
            Expectation("declared", ("A5", "I4", "I7"), declared),
        ),
    ),
    Step(
        "inventory",
        read_inventory,
        (
            Expectation("inventory-complete", ("A3", "B5", "B13", "B16"), inventory_complete),
            Expectation("inventory-sums", ("B17",), inventory_sums),
            Expectation("simulated-marked", ("O14",), simulated_marked),
        ),
    ),
)
