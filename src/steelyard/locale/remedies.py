"""Sentences of remedies, what would start a workload now, and of factors, what puts one before another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.locale.sentences import holders_list, text


def remedy_text(remedy: Mapping[str, Any], lang: str) -> str:
    """A remedy for people; `remedy` as the API gives it."""
    params = dict(remedy)
    raises = [text("remedy.raise", each, lang) for each in remedy.get("raises") or ()]
    params["raises"] = text("remedy.and", None, lang).join(raises)
    params["holders"] = holders_list(remedy.get("holders") or (), params, lang)
    several = "-several" if len(remedy.get("holders") or ()) > 1 else ""
    told = text(f"{remedy['code']}{several}", params, lang)
    if remedy.get("approximate"):
        told += ("" if lang == "zh" else " ") + text("reason.approximate", None, lang)
    return told


def factor_text(factor: Mapping[str, Any], lang: str) -> str:
    """A factor of the order for people; `factor` as the API gives it. `a` is left out where it is hidden."""
    nodes = factor.get("nodes") or (None, None)
    params = {**factor, "node_a": nodes[0], "node_b": nodes[1]}
    name = str(factor["code"])
    return text(f"{name}-same" if not factor.get("first") else name, params, lang)
