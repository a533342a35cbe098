"""Writes the tables of docs/en/failures.md and docs/zh/failures.md: the catalogue of failures as it is, and
how the induced failures of tests/failures were told apart just now.

`python -m tools.failures` induces them all, on this machine and on a simulated cluster, and fails where one
is told wrong. What stands outside of the marks in the pages is written by hand.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from steelyard.locale import text, word
from steelyard.model.failures import Stage
from steelyard.services.failure_catalogue import ANY, Catalogue, Rule, load_catalogue
from tests.failures import local, simulated
from tests.failures.cases import NONE, STAGES, Told, confusion

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("en", "zh")
HEADS: dict[str, dict[str, str]] = {
    "en": {
        "rules": "rule | signal | stage | what it says | cause | who | what to do | trying again",
        "stage": "stage | who is asked first",
        "case": "induced failure | where | what is done | truth | told | certain",
        "truth": "truth ＼ told",
        "none": "no failure",
        "sum": "{count} induced: {right} right, {unknown} unknown, {wrong} wrong.",
        "any": "any other",
    },
    "zh": {
        "rules": "规则 | 信号 | 阶段 | 结论 | 归类 | 处理人 | 处理建议 | 重试",
        "stage": "阶段 | 首先由谁处理",
        "case": "注入的失败 | 位置 | 真相 | 判定 | 把握",
        "truth": "真相 ＼ 判定",
        "none": "不是失败",
        "sum": "共注入 {count} 个：判对 {right} 个，未知 {unknown} 个，判错 {wrong} 个。",
        "any": "其余",
    },
}  # fmt: skip

SIGNALS = {
    "en": {"refusal": "reason", "control": "control plane", "engine": "engine", "signal": "signal",
           "shell": "shell's exit code", "line": "line", "exit": "exit code"},
    "zh": {"refusal": "拒绝原因", "control": "控制面", "engine": "引擎", "signal": "信号",
           "shell": "shell 退出码", "line": "日志行", "exit": "退出码"},
}  # fmt: skip


def page(lang: str) -> Path:
    """The page of a language."""
    return ROOT / "docs" / lang / "failures.md"


def fill(body: str, name: str, table: str) -> str:
    """The page with what stands between the marks of a table replaced."""
    marks = re.compile(rf"(<!-- {name}: .*?-->\n).*?(<!-- {name} ends -->)", re.DOTALL)
    filled, count = marks.subn(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", body)
    if count != 1:
        raise ValueError(f"marks of {name}")
    return filled


def catalogue_table(lang: str, catalogue: Catalogue) -> str:
    """Every rule, and who owns which stage."""
    who = catalogue.owners
    owners = [(word("stage", stage, lang), word("responsible", who[stage], lang)) for stage in Stage]
    rules = [_rule(rule, lang) for rule in catalogue.rules]
    return f"{_table(HEADS[lang]['stage'], owners)}\n\n{_table(HEADS[lang]['rules'], rules)}"


def _rule(rule: Rule, lang: str) -> tuple[str, ...]:
    sentence = f"verdict.{rule.code}"
    return (
        f"`{rule.id}`",
        "; ".join(f"{SIGNALS[lang][kind]}: {_values(kind, rule, lang)}" for kind in rule.when),
        word("stage", rule.stage, lang),
        f"`{rule.code}`: {_plain(text(sentence, {'code': rule.code}, lang))}",
        word("group", rule.group, lang),
        word("responsible", rule.responsible, lang),
        _plain(text(f"verdict.action.{rule.action}", None, lang)),
        word("retry", rule.retry, lang),
    )


def _values(kind: str, rule: Rule, lang: str) -> str:
    values = rule.when[kind]
    if kind == "line":
        shown = f"`{values!s}`".replace("|", "\\|")
        return f"{shown} ({', '.join(map(str, sorted(rule.exit_only)))})" if rule.exit_only else shown
    if values == ANY:
        return HEADS[lang]["any"]
    return ", ".join(f"`{value}`" for value in sorted(values, key=lambda one: (len(one), one)))


def cases_table(lang: str, told: Sequence[Told]) -> str:
    """Each induced failure with its truth and what was told, then how they add up."""
    rows = []
    for one in told:
        place = "this machine" if one.case.where == "local" else "simulated"
        shown = (f"`{one.case.name}`", place if lang == "en" else {"this machine": "本机"}.get(place, "模拟"))
        by_machine = "without_control_groups" in one.case.raw  # told another way, as rightly, without them
        confidence = word("confidence", one.verdict["confidence"], lang) if one.verdict else "–"
        said = one.case.truth if by_machine and one.result == "right" else one.kind
        how = (one.case.how,) if lang == "en" else ()
        certain = "–" if by_machine else confidence
        rows.append((*shown, *how, _kind(one.case.truth, lang), _kind(said, lang), certain))
    return _table(HEADS[lang]["case"], rows)


def confusion_table(lang: str, told: Sequence[Told]) -> str:
    """Stage × stage; `unknown` apart, in the last column."""
    counts = confusion(told)
    columns = (*STAGES, Stage.UNKNOWN.value)
    rows = [
        (_stage(true, lang), *(str(counts.get((true, said), "")) for said in columns))
        for true in STAGES
        if any(counts.get((true, said)) for said in columns)
    ]
    head = " | ".join((HEADS[lang]["truth"], *(_stage(said, lang) for said in columns)))
    found = Counter(one.result for one in told)
    line = HEADS[lang]["sum"].format(
        count=len(told), right=found["right"], unknown=found["unknown"], wrong=found["wrong"]
    )
    return f"{_table(head, rows)}\n\n{line}"


def _stage(stage: str, lang: str) -> str:
    return HEADS[lang]["none"] if stage == NONE else word("stage", stage, lang)


def _kind(kind: tuple[str, str, str] | None, lang: str) -> str:
    return HEADS[lang]["none"] if kind is None else f"{word('stage', kind[0], lang)} · `{kind[1]}`"


def _table(head: str, rows: Sequence[Sequence[str]]) -> str:
    width = head.count("|") + 1
    lines = [f"| {head} |", "|" + "---|" * width, *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join(lines)


def _plain(sentence: str) -> str:
    """A sentence in a cell: no optional parts, no bars."""
    return re.sub(r"\[\[.*?\]\]", "", sentence).replace("|", "\\|")


def induce() -> list[Told]:
    """Every case, told now."""
    told: list[Told] = []
    for suite in (local, simulated):
        with tempfile.TemporaryDirectory() as folder:
            told += suite.run(Path(folder))
    return told


def filled(lang: str, told: Sequence[Told]) -> str:
    """The page as it should be."""
    body = fill(page(lang).read_text(encoding="utf-8"), "catalogue", catalogue_table(lang, load_catalogue()))
    body = fill(body, "cases", cases_table(lang, told))
    return fill(body, "confusion", confusion_table(lang, told))


def main() -> int:
    """Writes both pages; 1 where something was told wrong."""
    told = induce()
    for lang in LANGUAGES:
        page(lang).write_text(filled(lang, told), encoding="utf-8")
    wrong = [one for one in told if one.result != "right"]
    for one in wrong:
        print(f"{one.result}: {one.case.name}: {one.case.truth}, told {one.kind}", file=sys.stderr)
    print(f"{len(told)} induced failures, {len(told) - len(wrong)} told apart rightly")
    return 1 if any(one.result == "wrong" for one in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
