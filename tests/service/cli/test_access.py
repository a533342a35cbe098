"""Signing in: what is kept, who may read it, and which server is sent it."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import pytest

from steelyard.cli.config import load_settings, read_config, save_settings
from steelyard.model.errors import InvalidError
from tests.service.cli.fake import Fake, installed

SESSION = {"token": "sy_secret", "expires_at": 1_767_225_600_000_000, "user": "ann"}


def server() -> Fake:
    return installed().on("POST /v1/sessions", SESSION).on("POST /v1/users/ann/password", {"name": "ann"})


def test_login_keeps_the_token_for_its_owner_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pw").write_text("secret word\nsecond line\n", encoding="utf-8")
    fake = server()
    assert fake.run("login", "ann", "--password-file", str(tmp_path / "pw"), HOME=str(tmp_path)) == 0
    path = tmp_path / ".config" / "steelyard" / "config.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_config(path) == {"url": "http://steelyard.test", "token": "sy_secret"}
    assert json.loads(fake.seen[0].content) == {"user": "ann", "password": "secret word"}
    captured = capsys.readouterr()
    assert "sy_secret" not in captured.out + captured.err
    assert "secret word" not in captured.out + captured.err


def test_login_as_json_does_not_print_the_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pw").write_text("x", encoding="utf-8")
    server().run("login", "ann", "-o", "json", "--password-file", str(tmp_path / "pw"), HOME=str(tmp_path))
    assert json.loads(capsys.readouterr().out) == {"expires_at": SESSION["expires_at"], "user": "ann"}


def test_the_password_may_come_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("piped\n"))
    fake = server()
    assert fake.run("login", "ann", HOME=str(tmp_path)) == 0
    assert json.loads(fake.seen[0].content)["password"] == "piped"


def test_a_one_time_password_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pw").write_text("x", encoding="utf-8")
    me = {"name": "ann", "bindings": [], "must_change_password": True}
    fake = server().on("GET /v1/me", me)
    fake.run("login", "ann", "--password-file", str(tmp_path / "pw"), HOME=str(tmp_path), lang="zh")
    assert "一次性密码" in capsys.readouterr().err


def test_logout_forgets_the_token_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / ".config" / "steelyard" / "config.toml"
    save_settings(path, {"url": "http://a", "token": "t", "lang": "zh"})
    assert server().run("logout", HOME=str(tmp_path)) == 0
    assert read_config(path) == {"url": "http://a", "lang": "zh"}


def test_the_own_password_needs_the_old_one_and_another_s_does_not(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old", encoding="utf-8")
    (tmp_path / "new").write_text("new", encoding="utf-8")
    files = ["--password-file", str(tmp_path / "new"), "--old-password-file", str(tmp_path / "old")]
    fake = server().on("POST /v1/users/bob/password", {"name": "bob"})
    assert fake.run("users", "password", *files) == 0
    assert fake.body() == {"new": "new", "old": "old"}
    assert fake.run("users", "password", "bob", *files) == 0
    assert fake.body() == {"new": "new"}


def test_a_password_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert server().run("login", "ann", "--password-file", "/nonexistent/x") == 1
    assert "[file-unreadable]" in capsys.readouterr().err


def test_a_stored_token_goes_only_to_the_server_it_was_stored_for(tmp_path: Path) -> None:
    save_settings(tmp_path / ".config/steelyard/config.toml", {"url": "http://a:1", "token": "t"})
    home = {"HOME": str(tmp_path)}
    assert load_settings(home).token == "t"
    assert load_settings(home, url="http://a:1/").token == "t"
    assert load_settings(home, url="http://b:1").token is None
    assert load_settings({**home, "STEELYARD_URL": "http://b:1"}).token is None
    assert load_settings({**home, "STEELYARD_URL": "http://b:1", "STEELYARD_TOKEN": "e"}).token == "e"


def test_flags_win_over_the_environment_and_that_over_the_files(tmp_path: Path) -> None:
    save_settings(tmp_path / ".config/steelyard/config.toml", {"url": "http://file", "lang": "zh"})
    save_settings(tmp_path / "data/config.toml", {"url": "http://data", "lang": "en"})
    home = {"HOME": str(tmp_path), "STEELYARD_DATA": str(tmp_path / "data")}
    assert (load_settings(home).url, load_settings(home).lang) == ("http://file", "zh")
    assert load_settings({**home, "STEELYARD_URL": "http://env"}).url == "http://env"
    assert load_settings({**home, "STEELYARD_URL": "http://env"}, url="http://flag").url == "http://flag"
    nobody = {"HOME": "/nonexistent", "STEELYARD_DATA": str(tmp_path / "data")}
    assert load_settings(nobody).url == "http://data"


def test_settings_do_not_show_their_token() -> None:
    assert "sy_x" not in repr(load_settings({"STEELYARD_TOKEN": "sy_x", "HOME": "/nonexistent"}))


@pytest.mark.parametrize("value", ['a"b', "a\\b", "红\n", "\x7f", "a]\n[b"])
def test_any_value_is_read_back_as_it_was_written(value: str, tmp_path: Path) -> None:
    save_settings(tmp_path / "config.toml", {"url": value})
    assert read_config(tmp_path / "config.toml") == {"url": value}


@pytest.mark.parametrize("text", ["url = [", "url = 3", "\xff", "token = {}"])
def test_a_broken_file_is_an_error_with_its_path(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidError) as caught:
        read_config(path)
    assert caught.value.code == "config-invalid"
    assert caught.value.params["path"] == str(path)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("", encoding="utf-8")
    (tmp_path / "config.toml").symlink_to(victim)
    save_settings(tmp_path / "config.toml", {"token": "t"})
    assert victim.read_text(encoding="utf-8") == ""
    assert not (tmp_path / "config.toml").is_symlink()


def test_a_folder_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InvalidError) as caught:
        save_settings(tmp_path / "file" / "x" / "config.toml", {"token": "t"})
    assert caught.value.code == "config-not-writable"


def first_sign_in() -> Fake:
    me = {
        "name": "ann",
        "bindings": [],
        "must_change_password": True,
        "password_length": {"least": 10, "most": 1024},
    }
    return server().on("GET /v1/me", me)


class Terminal(io.StringIO):
    """Standard input that somebody sits at."""

    def isatty(self) -> bool:
        return True


def test_a_one_time_password_is_changed_at_once_in_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["one-time", "mine-is-this", "mine-is-thus", "mine-is-this", "mine-is-this"])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    fake = first_sign_in()
    assert fake.run("login", "ann", HOME=str(tmp_path)) == 0
    assert fake.body() == {"new": "mine-is-this", "old": "one-time"}
    told = capsys.readouterr().err
    assert "at least 10" in told
    assert "differ" in told
    assert "mine-is-this" not in told


def test_a_one_time_password_is_changed_by_a_file_that_is_made_where_it_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("one-time\n", encoding="utf-8")
    own = tmp_path / "own"
    fake = first_sign_in()
    files = ["--password-file", str(tmp_path / "pw"), "--new-password-file", str(own)]
    for _ in range(2):
        assert fake.run("login", "ann", *files, HOME=str(tmp_path)) == 0
        assert fake.body() == {"new": own.read_text("utf-8").strip(), "old": "one-time"}
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert len(own.read_text("utf-8").strip()) >= 20
