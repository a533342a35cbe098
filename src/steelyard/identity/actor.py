"""How a principal stands in evidence leaves: by id, with a digest of the bindings it acted under."""

from __future__ import annotations

from hashlib import sha256

from steelyard.evidence.canonical import encode
from steelyard.evidence.leaf import ActorRef
from steelyard.model.organisation import Principal

SYSTEM = Principal("system", "system", "system")


def bindings_digest(principal: Principal) -> str | None:
    """SHA-256 of the canonical list of (role, project, version); None without bindings."""
    if not principal.bindings:
        return None
    listed = sorted([b.role.value, b.project or "", b.version] for b in principal.bindings)
    return sha256(encode(listed)).hexdigest()


def actor_of(principal: Principal) -> ActorRef:
    """The actor of the principal's leaves."""
    return ActorRef(principal.id, principal.kind, (), bindings_digest(principal))
