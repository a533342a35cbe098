"""Templates and static files, read from the package. What a page shows is escaped, unless it is markup."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def environment() -> Environment:
    """The one environment. A name that is not given is an error, never an empty place."""
    return Environment(
        loader=PackageLoader("steelyard.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


@cache
def static(name: str) -> bytes | None:
    """The bytes of a static file; None where there is none of this name."""
    if not name.replace(".", "").replace("-", "").isalnum() or name.rpartition(".")[2] not in TYPES:
        return None
    file = resources.files("steelyard.console").joinpath("static", name)
    return file.read_bytes() if file.is_file() else None


@cache
def static_path(name: str) -> str:
    """The address of a static file, another one for other bytes, so that browsers may keep it."""
    data = static(name)
    if data is None:
        raise LookupError(name)
    return f"/static/{sha256(data).hexdigest()[:12]}/{name}"
