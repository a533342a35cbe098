"""A real training on this machine, seen by its own project and no other; later a service with its model."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path

from steelyard.demo.context import Step, Story, members
from steelyard.demo.door import every, post
from steelyard.demo.expect import Expectation, Found, Json, Seen, found

#: Points of the plane and the arm of the spiral that each lies on, as the training data has them.
PROBE = [[0.30, 0.30], [-0.45, 0.10]]
_MODEL = "model.npz"


def start_training(story: Story) -> None:
    """Submits it as a member of `vision`; the member of `language` looks for it and finds nothing."""
    story.submit("train-spiral")
    identity = story.ids["train-spiral"]
    other = story.doors["mei"]
    story.seen["foreign-status"], body = other.call("GET", f"/v1/workloads/{identity}")
    story.seen["missing-status"], missing = other.call("GET", "/v1/workloads/" + _never_given(identity))
    story.seen["foreign-code"], story.seen["missing-code"] = body.get("code"), missing.get("code")
    story.seen["foreign-list"] = [row["id"] for row in every(other, "/v1/workloads")]
    story.seen["own-list"] = [row["id"] for row in every(story.doors["lin"], "/v1/workloads")]


def _never_given(identity: str) -> str:
    """An id of the same form that nobody has: its last character differs."""
    return identity[:-1] + ("0" if identity[-1] != "0" else "1")


def invisible(seen: Seen) -> Found:
    """A foreign id answers like one that does not exist, and is in no list."""
    status, code = seen["foreign-status"], seen["foreign-code"]
    same = (status, code) == (seen["missing-status"], seen["missing-code"])
    ok = status == 404 and same and not seen["foreign-list"] and len(seen["own-list"]) == 1
    return found(ok, "invisible", status=status, code=code, listed=len(seen["foreign-list"]))


def serve_model(story: Story) -> None:
    """Waits for the training, serves its model, asks the service over HTTP."""
    trained = story.until_finished("train-spiral")
    story.seen["trained"] = trained
    story.seen["training-log"] = story.log("train-spiral")
    folder = _artifacts(story, trained)
    story.seen["model-folder"] = str(folder)
    model = folder / _MODEL
    story.seen["model-digest"] = sha256(model.read_bytes()).hexdigest()
    story.seen["model-figures"] = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    story.submit("serve-spiral", MODEL=str(model))
    ready = story.until(
        "serve-spiral",
        lambda view: bool(view["attempts"][-1]["times"]["ready"] and members(view)[0]["endpoint"]),
        "ready",
    )
    story.seen["service"] = ready
    story.seen["prediction"] = _ask(members(ready)[0]["endpoint"])


def _artifacts(story: Story, view: Json) -> Path:
    """Where the training's results were kept. Raises FileNotFoundError."""
    below = Path("work", view["attempts"][-1]["id"], members(view)[0]["id"], "artifacts")
    for place in (story.data / below, story.data / "local" / below):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"no artifacts of {view['name']}: {below}")


def _ask(endpoint: str) -> dict[str, object]:
    """A real request to the service: status and answer."""
    base = endpoint if endpoint.startswith("http://") else f"http://{endpoint}"
    request = urllib.request.Request(
        f"{base.rstrip('/')}/predict",
        data=json.dumps({"points": PROBE}).encode(),
        headers={"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return {"status": answer.status, "body": json.loads(answer.read())}
    except (urllib.error.URLError, ValueError) as error:
        return {"status": None, "body": str(error)}


def training_succeeded(seen: Seen) -> Found:
    """It ran as a real process, wrote checkpoints and left a model."""
    view, figures = seen["trained"], seen["model-figures"]
    checkpoints = seen["training-log"].count("loss ")
    accuracy = int(figures["accuracy"] * 100)
    ok = view["outcome"] == "succeeded" and not view["simulated"] and checkpoints > 0 and accuracy >= 50
    return found(
        ok, "trained", outcome=view["outcome"], checkpoints=checkpoints, accuracy=accuracy,
        digest=seen["model-digest"][:12],
    )  # fmt: skip


def service_answers(seen: Seen) -> Found:
    """The service is ready and answers with the model."""
    answer = seen["prediction"]
    classes = answer["body"]["classes"]
    endpoint = members(seen["service"])[0]["endpoint"]
    ok = answer["status"] == 200 and len(classes) == len(PROBE)
    return found(ok, "answered", endpoint=endpoint, classes=", ".join(map(str, classes)))


def stop_service(story: Story) -> None:
    """The service has done its part."""
    post(story.doors["lin"], f"/v1/workloads/{story.ids['serve-spiral']}/cancel")


START = Step("training", start_training, (Expectation("invisible", ("I5", "J12"), invisible),))
SERVE = Step(
    "inference",
    serve_model,
    (
        Expectation("training-succeeded", ("D1", "D3", "D4", "M9"), training_succeeded),
        Expectation("service-answers", ("D5", "M9"), service_answers),
    ),
)
