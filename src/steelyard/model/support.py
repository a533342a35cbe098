"""What surrounds devices: documents about support, extensions, sources of observation, as closed lists.

None of these proves that anything works: a document says what somebody claims, an extension is an entry
point, a source observes. Only a verification record speaks of a run.
"""

from __future__ import annotations

from enum import StrEnum


class LinkState(StrEnum):
    """What an operator found at a document's address; nothing is fetched by itself."""

    UNCHECKED = "unchecked"
    REACHABLE = "reachable"
    MOVED = "moved"
    BROKEN = "broken"


class ExtensionType(StrEnum):
    """What kind of piece it is."""

    DEVICE_PLUGIN = "device-plugin"
    OPERATOR = "operator"
    EXPORTER = "exporter"
    RUNTIME = "runtime"
    DRIVER = "driver"
    SCHEDULER = "scheduler"


class SourceType(StrEnum):
    """How a source of observation works."""

    PROBE = "probe"
    EXPORTER = "exporter"
    METRICS = "metrics"
    LOG = "log"
    EVENTS = "events"
