"""Every command: its texts in both languages, and what it prints of a server that has one of everything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.cli import help_pages, table
from steelyard.cli.command import build
from steelyard.locale import LANGUAGES, has
from tests.service.cli import fake_devices, fake_foresight, fake_pools
from tests.service.cli.fake import CHECKPOINT, DOCUMENT, FAILED, REFUSAL, USAGE, WAITING, installed

CJK = re.compile("[\u4e00-\u9fff]")
#: What a missing text or a parameter that was not filled in would look like.
LEFT_OVER = re.compile(r"\b(?:cli|word|reason|verdict)\.[a-z]|\{[a-z_]+[:}]|\[\[|\]\]")

#: Command line → (a piece of the English page, a piece of the Chinese page).
PAGES: dict[str, tuple[str, str]] = {
    **fake_pools.PAGES,
    **fake_devices.PAGES,
    **fake_foresight.PAGES,
    "list": ("train-1", "排队中"),
    "show wl_1": ("Waits for quota: project alpha may use 4 GPU", "等待配额：项目 alpha 可用 4 个 GPU"),
    "show wl_2": ("exit code 3", "退出码 3"),
    "show train-1": ("train-1", "申请：2 个 GPU、0.5 核 CPU、2 GiB 内存"),
    "explain wl_1": ("Place 3 in its queue", "排第 3 位"),
    "explain wl_1 --before wl_2": ("old goes before train-1", "old 排在 train-1 之前"),
    "logs wl_1": ("step 1", "step 1"),
    "top": ("[##########xxxxxxxxxx]", "已准入"),
    "cancel wl_1": ("is asked to end", "已请求结束"),
    "scale wl_1 3": ("3 replica(s)", "3 个副本"),
    "retry wl_1": ("tries again", "将重试"),
    "hold wl_1": ("`steelyard release wl_1`", "`steelyard release wl_1`"),
    "release wl_1": ("again", "恢复为"),
    "inventory": ("A100 [simulated]", "A100 [模拟]"),
    "inventory --summary": ("sim [simulated]: simulated, answers", "sim [模拟]：模拟，应答正常"),
    "device dv_1": ("A100", "属性"),
    "queues": ("main (stopped)", "main (已停止)"),
    "quotas": ("alpha", "项目"),
    "queues waiting main": ("2 of 3 shown", "显示了 2 个"),
    "queues inventory": ("Some quota has no devices behind it", "落空"),
    "artifacts wl_2": ("artifacts/model", "已删除"),
    "release list": ("mount /data/x (+1)", "已隔离 (已围栏)"),
    "release show rl_1": ("still found something: mounts (1)", "实时探测仍有发现：挂载（1）"),
    "release confirm rl_1": ("it is proven free and offered again", "终止的进程"),
    "release fence rl_1 --reason stuck": ("processes ended: 2", "已证实释放"),
    "export": ("displayName: 红队", "displayName: 红队"),
    "get team": ("red", "red"),
    "get teams red": ("kind: Team", "kind: Team"),
    "get Team red --history": ("red", "起"),
    "delete team red": ("team red is retired", "团队 red 已退役"),
    "failures --order lost-time": ("4 [simulated]", "失败尝试 5 次、拒绝 2 次"),
    "usage": ("1.000 h", "占用＋空闲＋不可用＋未知"),
    "review": ("Next round: better rules", "下一轮应优化规则"),
    "refusals": ("64 GPU", "64 个 GPU"),
    "refusals rf_1": ("review: open", "待复核"),
    "cycles": ("cy_1", "放置"),
    "cycles cy_1": ("decisions", "decisions"),
    "replay cy_1": ("with the same result", "重放结果一致"),
    "audit check": ("held + idle", "占用＋空闲"),
    "audit checkpoint": ("Short code, to be written down: 5-AAAA", "短码"),
    "audit leaves --stream project/alpha": ("workload.submit", "动作"),
    "whoami": ("auditor: everywhere", "审计: 全部"),
    "users list": ("Ann", "显示名称"),
    "users create ann": ("one-time", "一次性密码"),
    "users disable ann": ("is disabled", "已停用"),
    "tokens list": ("cr_1", "到期"),
    "tokens create ci --expires-in 30d": ("sy_once", "sy_once"),
    "tokens revoke cr_1": ("is revoked", "已吊销"),
    "doctor": ("✓ database: The database answers", "✓ database: 数据库应答正常"),
    "version": ("server 0.1.0", "服务器 0.1.0"),
    "completion bash": ("complete -F _steelyard", "complete -F _steelyard"),
    "submit train-1 -n lab -- python train.py": ("is queued; asked for: 2 GPU, 0.5 CPU", "排队中"),
}
#: Command line → what `-o json` gives.
DATA: dict[str, Any] = {
    "show wl_1": WAITING,
    "show wl_2": FAILED,
    "export": [DOCUMENT],
    "get team red": DOCUMENT,
    "usage": USAGE,
    "refusals": [REFUSAL],
    "audit checkpoint": CHECKPOINT,
    "submit train-1 -n lab -- true": WAITING,
}
#: Shown elsewhere: they need files, folders or a terminal.
ELSEWHERE = {
    "apply", "diff", "login", "logout", "users password", "audit export", "audit verify", "up", "serve",
    "demo", "reset-password", "audit rotate-key", "exec", "attach", "backup", "backup verify", "restore",
    "upgrade", "poc run", "policy preview",
}  # fmt: skip


def test_every_command_is_tried() -> None:
    tried = {name for name in table.COMMANDS if any(f"{line} ".startswith(f"{name} ") for line in PAGES)}
    assert set(table.COMMANDS) - tried == ELSEWHERE


@pytest.mark.parametrize("name", list(table.COMMANDS))
def test_every_command_and_parameter_has_its_texts(name: str) -> None:
    command = build(name, table.load(table.COMMANDS[name]), "en", {})
    codes = [help_pages.parameter_code(name, parameter.name) for parameter in command.params]
    assert [code for code in [table.text_code(name, "help"), *codes] if not has(code)] == []


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", ["", *table.GROUPS, *table.COMMANDS])
def test_every_help_page_is_in_the_reader_s_language(
    name: str, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert installed().run(*name.split(), "--help", lang=lang) == 0
    shown = capsys.readouterr().out
    assert not LEFT_OVER.search(shown)
    assert bool(CJK.search(shown)) is (lang == "zh")
    assert "Usage" not in shown or lang == "en"
    assert max(help_pages._columns(line) for line in shown.splitlines()) <= help_pages.WIDTH + 2


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("line", list(PAGES))
def test_every_command_speaks_the_reader_s_language(
    line: str, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert installed().run(*line.split(), lang=lang) == 0
    captured = capsys.readouterr()
    assert PAGES[line][LANGUAGES.index(lang)] in captured.out
    assert not LEFT_OVER.search(captured.out + captured.err)
    if lang == "en":
        assert not CJK.search(captured.out.replace("红队", "") + captured.err)


@pytest.mark.parametrize("line", [line for line in PAGES if not line.startswith("logs")])
def test_every_command_gives_the_same_data_as_json_and_as_yaml(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.split()
    words[2 if words[0] in table.GROUPS else 1 : 0] = []
    at = words.index("--") if "--" in words else len(words)
    outputs = []
    for form in ("json", "yaml"):
        assert installed().run(*words[:at], "-o", form, *words[at:]) == 0
        outputs.append(capsys.readouterr().out)
    as_yaml = list(yaml.safe_load_all(outputs[1]))
    assert json.loads(outputs[0]) in (as_yaml[0], as_yaml)


@pytest.mark.parametrize("line", list(DATA))
def test_json_is_what_the_server_gave_unchanged(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert installed().run("-o", "json", *line.split()) == 0
    assert json.loads(capsys.readouterr().out) == DATA[line]


@pytest.mark.parametrize("line", [line for line in PAGES if "logs" not in line])
def test_nothing_but_data_is_on_standard_output_of_json(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    installed().run("-o", "json", *line.split(), lang="zh")
    json.loads(capsys.readouterr().out)


@pytest.mark.requirement("O14")
@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_is_simulated_is_marked_on_every_page_that_shows_it(
    lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = {"en": "[simulated]", "zh": "[模拟]"}[lang]
    for line in ("list", "show wl_2", "inventory", "inventory --summary", "device dv_1", "usage", "top"):
        installed().run(*line.split(), lang=lang)
        assert mark in capsys.readouterr().out, line


def test_apply_and_diff_say_what_changes_and_diff_tells_by_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = "kind: Team\nmetadata: {name: red}\nspec: {displayName: 红队}\n"
    (tmp_path / "a.yaml").write_text(document, encoding="utf-8")
    fake, path = installed(), str(tmp_path / "a.yaml")
    assert fake.run("apply", "-f", path) == 0
    shown = capsys.readouterr()
    assert "+ Team/red: created" in shown.out
    assert "spec.displayName: – → 红队" in shown.out
    assert shown.err.startswith("Warning: ")
    assert fake.run("diff", "-f", path, lang="zh") == 1
    assert "+ Team/red: 将创建" in capsys.readouterr().out
    assert fake.seen[-1].url.params["dry_run"] == "true"
    assert fake.body()["documents"][0]["spec"] == {"displayName": "红队"}
