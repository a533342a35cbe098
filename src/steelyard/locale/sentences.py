"""Sentences made of records: errors, reasons and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.locale import catalogue
from steelyard.locale.rendering import Params, fill

_FIELDS = (
    "code", "stage", "scope", "owner", "resource", "flavor", "limit", "used", "requested", "short_by",
    "holders", "wakes_on", "approximate", "params",
)  # fmt: skip
_MAX_HOLDERS = 5


def text(code: str, params: Params | None = None, lang: str = "en") -> str:
    """The sentence of any code in a language. A code without a text is shown with its parameters."""
    given = params or {}
    template = catalogue.template(code, lang)
    if template is not None:
        return fill(template, given, lang)
    inner = ", ".join(f"{key}={value}" for key, value in given.items())
    return f"{code} ({inner})" if inner else code


def error_text(code: str, params: Params | None, lang: str, reasons: Sequence[Any] = ()) -> str:
    """An error for people: its sentence, then every reason that comes with it."""
    sentences = [text(code, params, lang), *(reason_text(reason, lang) for reason in reasons)]
    return _join(sentences, lang)


def problem_title(status: int, lang: str) -> str:
    """The short title of an HTTP problem by its status."""
    known = f"title.{status}"
    return text(known if catalogue.has(known) else "title.other", None, lang)


def reason_text(reason: Any, lang: str) -> str:
    """A reason for people; `reason` is a `model.reasons.Reason` or the same as a mapping."""
    fields = {name: _get(reason, name) for name in _FIELDS}
    params = {**fields, **(fields["params"] or {})}
    code = str(fields["code"])
    variant = next(
        (
            name
            for name in (f"reason.{code}.{params.get('per')}", f"reason.{code}")
            if catalogue.has(name)
        ),
        code,
    )
    if isinstance(params.get("error"), str):
        params["error_text"] = text(params["error"], params, lang)
    sentences = [text(variant, params if variant != code else {}, lang)]
    holders = list(fields["holders"] or ())
    if holders:
        sentences.append(_holders(holders, params, lang))
    wakes = [catalogue.word("wake", str(event), lang) for event in fields["wakes_on"] or ()]
    if wakes:
        sentences.append(text("reason.wakes", {"events": text("reason.or", None, lang).join(wakes)}, lang))
    if fields["approximate"]:
        sentences.append(text("reason.approximate", None, lang))
    if params.get("more_reasons"):
        sentences.append(text("reason.more", {"count": params["more_reasons"]}, lang))
    return _join(sentences, lang)


def _holders(holders: list[Any], params: Params, lang: str) -> str:
    return text("reason.holders", {"holders": holders_list(holders, params, lang)}, lang)


def holders_list(holders: Sequence[Any], params: Params, lang: str) -> str:
    """The first few holders of a reason or a remedy, and how many more there are."""
    shown = [_holder(holder, params, lang) for holder in holders[:_MAX_HOLDERS]]
    if len(holders) > _MAX_HOLDERS:
        shown.append(text("reason.holders-more", {"count": len(holders) - _MAX_HOLDERS}, lang))
    return text("reason.comma", None, lang).join(shown)


def _holder(holder: Any, params: Params, lang: str) -> str:
    fields = {
        name: _get(holder, name) for name in ("kind", "id", "name", "amount", "project", "queue", "since")
    }
    fields["resource"] = params.get("resource")
    if not fields["id"] and not fields["name"]:
        return text("reason.holder-hidden", fields, lang)
    fields["name"] = fields["name"] or fields["id"]
    own = {"workload": "reason.holder", "withheld": "reason.holder-withheld"}
    code = own.get(str(fields["kind"]), "reason.holder-part")
    return text(code, fields, lang)


def verdict_cause(verdict: Any, lang: str) -> str:
    """Why an attempt failed, in one sentence."""
    return _cause(_verdict(verdict), lang)


def verdict_text(verdict: Any, lang: str) -> str:
    """Why an attempt failed, whose matter it is and what to do; a `Verdict` or the same as a mapping."""
    params = _verdict(verdict)
    sentences = [_cause(params, lang)]
    if params.get("said"):
        sentences.append(text("verdict.said", params, lang))
    if params.get("line"):
        sentences.append(text("verdict.printed", params, lang))
    sentences.append(text("verdict.whose", params, lang))
    action = f"verdict.action.{params['action']}"
    if catalogue.has(action):
        sentences.append(text(action, params, lang))
    return _join(sentences, lang)


def _cause(params: Params, lang: str) -> str:
    code = f"verdict.{params['code']}"
    return text(code if catalogue.has(code) else "verdict.other", params, lang)


def _verdict(verdict: Any) -> dict[str, Any]:
    names = ("stage", "code", "group", "responsible", "action", "confidence", "detail", "retry")
    params: dict[str, Any] = dict(_get(verdict, "params") or {})
    params.update((name, _get(verdict, name)) for name in names)
    for pointer in _get(verdict, "evidence") or ():
        if _get(pointer, "kind") == "line":
            params.setdefault("line", _get(pointer, "value"))
        elif _get(pointer, "field") == "failure_text":
            params.setdefault("said", _get(pointer, "value"))
    return params


def pointer_text(pointer: Any, lang: str) -> str:
    """One piece of a verdict's evidence: which counter had which value, or which line of which log."""
    params = {name: _get(pointer, name) for name in ("field", "value", "member", "offset", "length")}
    if _get(pointer, "kind") == "line":
        end = (params["offset"] or 0) + (params["length"] or 0)
        return text("verdict.pointer.line", {**params, "end": end}, lang)
    code = "verdict.pointer.counter" if params["member"] is None else "verdict.pointer.counter-of"
    return text(code, params, lang)


def _get(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)


def _join(sentences: Sequence[str], lang: str) -> str:
    return ("" if lang == "zh" else " ").join(sentence for sentence in sentences if sentence)
