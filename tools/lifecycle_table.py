"""Writes the lifecycle table of docs/en/architecture.md and docs/zh/architecture.md.

The rows come from `steelyard.model.lifecycle`, the words from the texts, so the pages say what the code does.
Only what stands between the two marks is replaced. `--check` writes nothing and fails where a page is stale.
"""

from __future__ import annotations

import sys

from steelyard.locale import word
from steelyard.model.lifecycle import RULES, Phase, PhaseRule
from steelyard.model.units import DAY, HOUR, MINUTE, SECOND
from tools.tables import Table, main

BEGIN = "<!-- lifecycle table: written by tools/lifecycle_table.py -->"
END = "<!-- end of the lifecycle table -->"
NOTHING = "–"
_HEADINGS = {
    "en": ("phase", "opens with", "metered as", "quota", "capacity", "timer", "who acts", "may become"),
    "zh": ("阶段", "起始时刻", "计量状态", "配额", "容量", "时限", "负责方", "可转入"),
}
_WORDS = {
    "en": {
        "none": NOTHING,
        "charged": "charged",
        "as-declared": "as declared",
        "kept": "kept",
        "held": "held",
        "not-offered": "not offered",
        "requeue": "back to the queue",
        "fail": "fails",
        "stop": "is stopped",
        "kill": "is killed",
        "quarantine": "quarantine",
        "submitter": "submitter",
        "nobody": "nobody",
        "schedule": "schedule loop",
        "reconcile": "reconcile loop",
        "release": "release loop",
        "time-limit": "its own time limit",
    },
    "zh": {
        "none": NOTHING,
        "charged": "计入",
        "as-declared": "按声明",
        "kept": "保留",
        "held": "占用",
        "not-offered": "不再分出",
        "requeue": "回到队列",
        "fail": "判为失败",
        "stop": "停止",
        "kill": "强制结束",
        "quarantine": "隔离",
        "submitter": "提交者",
        "nobody": "无",
        "schedule": "调度循环",
        "reconcile": "对账循环",
        "release": "释放循环",
        "time-limit": "任务自身的时间上限",
    },
}
_UNITS = {
    "en": ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")),
    "zh": ((DAY, "天"), (HOUR, "小时"), (MINUTE, "分钟"), (SECOND, "秒")),
}


def render(lang: str) -> str:
    """The table as Markdown."""
    heads = _HEADINGS[lang]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(_cells(rule, lang)) + " |" for rule in RULES.values()]
    return "\n".join(lines)


def _cells(rule: PhaseRule, lang: str) -> tuple[str, ...]:
    words = _WORDS[lang]
    return (
        _phase(rule.phase, lang),
        f"`{rule.stage_time}`" if rule.stage_time else NOTHING,
        f"`{rule.metering}`" if rule.metering else NOTHING,
        words[rule.quota.value],
        words[rule.capacity.value],
        _timer(rule, lang),
        words[rule.owner],
        " ".join(f"`{phase.value}`" for phase in Phase if phase in rule.next) or NOTHING,
    )


def _phase(phase: Phase, lang: str) -> str:
    return f"`{phase.value}`" if lang == "en" else f"`{phase.value}` {word('phase', phase.value, lang)}"


def _timer(rule: PhaseRule, lang: str) -> str:
    words = _WORDS[lang]
    if rule.on_timer is None:
        return NOTHING
    after = words["time-limit"] if rule.timer is None else _span(rule.timer, lang)
    return f"{after}: {words[rule.on_timer]}" if lang == "en" else f"{after}：{words[rule.on_timer]}"


def _span(micros: int, lang: str) -> str:
    unit, name = next((unit, name) for unit, name in _UNITS[lang] if micros % unit == 0)
    return f"{micros // unit} {name}"


TABLE = Table("architecture", BEGIN, END, render)


if __name__ == "__main__":
    sys.exit(main(TABLE, __doc__))
