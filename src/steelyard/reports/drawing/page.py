"""The whole page: one file that needs no network, in every language at once, with a switch between them.

The switch is two radio buttons and CSS, so it works without script. A policy in the page itself forbids
anything but its own style and its one small script.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import resources

from steelyard.reports.drawing.markup import Markup, el, join, raw
from steelyard.reports.drawing.palette import patterns

NAMES = {"zh": "中文", "en": "English"}


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def page(title: str, bodies: Mapping[str, Markup], first: str) -> str:
    """The document. `bodies` hold its content by language, `first` is the one that is shown at first."""
    style, script = _asset("page.css"), _asset("page.js")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        raw("style", style),
    )
    blocks = [_block(lang, content) for lang, content in bodies.items()]
    body = el("body", _switch(list(bodies), first), blocks, patterns(), raw("script", script))
    return f"<!DOCTYPE html>\n{el('html', head, body, lang=first)}\n"


def _policy(script: str) -> str:
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"


def _switch(languages: list[str], first: str) -> Markup:
    boxes = [
        el(
            "input",
            type="radio",
            name="language",
            id=f"show-{lang}",
            cls="switch",
            checked=lang == first,
            aria_label=NAMES[lang],
        )
        for lang in languages
    ]
    labels = [el("label", NAMES[lang], for_=f"show-{lang}", lang=lang) for lang in languages]
    return join([*boxes, el("div", labels, cls="tabs")])


def _block(lang: str, content: Markup) -> Markup:
    return el("div", el("div", content, cls="sheet"), cls=f"l-{lang}", lang=lang)
