"""The evidence leaves the house: a bundle that a stranger verifies without it."""

from __future__ import annotations

from steelyard.demo.bundle import read_rows, unpack, verify
from steelyard.demo.closing import same_as_export
from steelyard.demo.context import Step, Story
from steelyard.demo.expect import Expectation, Found, Seen, found


def export(story: Story) -> None:
    """Exports the bundle, unpacks it, and runs the verifier that lies in it, as another process."""
    archive = story.admin.download("/v1/audit/bundle", {"from": story.began, "to": None})
    folder = story.out / "bundle"
    story.seen["bundle-files"] = unpack(archive, folder)
    checkpoint = story.seen["checkpoint"]
    key, anchor = checkpoint["key"]["fingerprint"], checkpoint["short_code"]
    story.seen["verified"] = verify(folder, story.python, key, anchor)
    story.seen["verified-without-key"] = verify(folder, story.python, None)
    story.seen["segments"] = read_rows(folder / "usage" / "segments.jsonl")
    story.seen["capacity"] = read_rows(folder / "usage" / "capacity.jsonl")


def verifies(seen: Seen) -> Found:
    """The verifier finds nothing wrong, knows the key, finds the report's checkpoint in the log; it says
    that no witness has co-signed."""
    answer, without = seen["verified"], seen["verified-without-key"]
    report = answer["report"]
    ok = (
        answer["exit"] == 0
        and report["key_known"] is True
        and report["self_attested"] is True
        and without["exit"] == 0
        and without["report"]["key_known"] is False
    )
    return found(ok, "verified", exit=answer["exit"], files=seen["bundle-files"])


def export_agrees(seen: Seen) -> Found:
    """The exported segments, summed here, are the usage that the server has answered."""
    pairs = same_as_export(seen["usage"], seen["segments"])
    wrong = [name for name, (asked, exported) in pairs.items() if asked != exported]
    return found(bool(pairs) and not wrong, "agrees", classes=len(pairs), wrong=", ".join(wrong) or None)


EXPORT = Step(
    "evidence",
    export,
    (
        Expectation("bundle-verifies", ("K4", "K7", "K10"), verifies),
        Expectation("export-agrees", ("L24",), export_agrees),
    ),
)
