"""The server's own log: one line an event to standard output, as text for people or as JSON for machines.

No line holds a secret: a trace shows where, never with what values, and whatever looks like a credential of
ours, or is called one, is blotted out before anything is written.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.types import Processor

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_SECRET = re.compile(r"\bsy_[A-Za-z0-9_-]{8,}|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)|(?i:bearer)\s+\S+")
_NAMED = frozenset({"password", "token", "secret", "authorization", "cookie", "private_key", "passphrase"})
_BLOT = "[secret]"


def blot(value: str) -> str:
    """The text without what looks like a credential."""
    return _SECRET.sub(_BLOT, value)


def _without_secrets(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if key.lower() in _NAMED and value is not None:
            event[key] = _BLOT
        elif isinstance(value, str):
            event[key] = blot(value)
    return event


def configure_log(form: str = "text", level: str = "info") -> None:
    """Set up for the whole process: our own lines, and those of the libraries from warnings on."""
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _without_secrets,
    ]
    render: Processor = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    if form == "json":
        render = structlog.processors.JSONRenderer(ensure_ascii=False)
    structlog.configure(
        processors=[*before, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_secrets, render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
