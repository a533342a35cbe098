"""Shape 20: names that others will rely on: environment, files, ports."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from steelyard.cli import config, operators
from steelyard.cli.main import main
from steelyard.client.requests import DEFAULT_URL
from tests.support.message_codes import SOURCE

SETTINGS = {"STEELYARD_URL", "STEELYARD_TOKEN", "STEELYARD_DATA", "STEELYARD_LANG"}
#: How code asks for a variable of its own environment.
ASKED = re.compile(r"""environ(?:ment)?(?:\.get\(|\[)\s*["'](STEELYARD_[A-Z_]+)""")


def test_api_and_console_are_on_loopback_port_7580() -> None:
    assert DEFAULT_URL == config.DEFAULT_URL == "http://127.0.0.1:7580"
    defaults = {name: p.default for name, p in inspect.signature(operators.up).parameters.items()}
    assert (defaults["host"], defaults["port"]) == ("127.0.0.1", 7580)
    assert config.load_settings({"HOME": "/nonexistent"}).url == DEFAULT_URL


def test_the_environment_names_server_token_data_and_language() -> None:
    values = {"URL": "http://a", "TOKEN": "t", "DATA": "/d", "LANG": "zh"}
    assert {f"STEELYARD_{name}" for name in values} == SETTINGS
    found = config.load_settings({f"STEELYARD_{name}": value for name, value in values.items()})
    assert (found.url, found.token, found.data, found.lang) == ("http://a", "t", Path("/d"), "zh")


def test_the_doors_ask_for_no_other_variable() -> None:
    asked = {
        name
        for room in ("cli", "client", "locale", "api")
        for path in (SOURCE / room).rglob("*.py")
        for name in ASKED.findall(path.read_text(encoding="utf-8"))
    }
    assert asked == SETTINGS


def test_the_language_is_chosen_before_commands_are_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--help"], {"STEELYARD_LANG": "zh", "HOME": "/nonexistent"}) == 0
    assert "用法" in capsys.readouterr().out


def test_configuration_is_config_toml_in_the_user_s_and_in_the_data_folder(tmp_path: Path) -> None:
    assert config.config_path({"HOME": "/h"}) == Path("/h/.config/steelyard/config.toml")
    assert config.config_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/steelyard/config.toml")
    (tmp_path / "config.toml").write_text('url = "http://data"\n', encoding="utf-8")
    environ = {"HOME": "/nonexistent", "STEELYARD_DATA": str(tmp_path)}
    assert config.load_settings(environ).url == "http://data"
