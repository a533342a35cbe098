"""Where the server is and who we are: flags, environment, then `config.toml`.

The file lies in the user's configuration folder (`$XDG_CONFIG_HOME/steelyard`, `~/.config/steelyard`), or
in the data folder named by STEELYARD_DATA. It holds a credential, so that only its owner may read it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.model.errors import InvalidError

DEFAULT_URL = "http://127.0.0.1:7580"
_KEYS = ("url", "token", "lang")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a client needs. The token is left out of the representation."""

    url: str
    token: str | None = field(default=None, repr=False)
    lang: str | None = None
    data: Path | None = None


def config_path(environ: Mapping[str, str]) -> Path:
    """The user's configuration file."""
    base = environ.get("XDG_CONFIG_HOME")
    folder = Path(base) if base else Path(environ.get("HOME") or "~").expanduser() / ".config"
    return folder / "steelyard" / "config.toml"


def load_settings(
    environ: Mapping[str, str], *, url: str | None = None, token: str | None = None
) -> Settings:
    """The settings; arguments win over the environment, the environment over the files.

    A stored token is used only for the address that it was stored for. Raises InvalidError
    `config-invalid` with the file.
    """
    data = Path(environ["STEELYARD_DATA"]) if environ.get("STEELYARD_DATA") else None
    stored = read_config(config_path(environ))
    if data is not None:
        stored = {**read_config(data / "config.toml"), **stored}
    address = (url or environ.get("STEELYARD_URL") or stored.get("url") or DEFAULT_URL).rstrip("/")
    own = stored.get("token") if address == (stored.get("url") or DEFAULT_URL).rstrip("/") else None
    return Settings(
        url=address,
        token=token or environ.get("STEELYARD_TOKEN") or own,
        lang=environ.get("STEELYARD_LANG") or stored.get("lang"),
        data=data,
    )


def read_config(path: Path) -> dict[str, str]:
    """The known keys of a file; empty when there is none. Raises InvalidError `config-invalid`."""
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise InvalidError("config-invalid", path=str(path), reason=str(error)[:200]) from None
    for key in _KEYS:
        if key in found and not isinstance(found[key], str):
            raise InvalidError("config-invalid", path=str(path), reason=key)
    return {key: found[key] for key in _KEYS if key in found}


def save_settings(path: Path, values: Mapping[str, str | None]) -> None:
    """Puts the given keys into the file (None removes one). Written anew, mode 0600, by rename.

    Raises InvalidError `config-not-writable`.
    """
    merged = {**read_config(path), **{key: value for key, value in values.items() if key in _KEYS}}
    lines = [
        f"{key} = {_quoted(value)}\n"
        for key, value in merged.items()
        if value is not None
    ]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(lines)
        temporary.replace(path)
    except OSError as error:
        raise InvalidError("config-not-writable", path=str(path), reason=str(error)[:200]) from None


def _quoted(value: str) -> str:
    """A TOML basic string: a JSON string, but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
