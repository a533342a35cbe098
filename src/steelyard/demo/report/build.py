"""The page put together, in both languages."""

from __future__ import annotations

from steelyard.demo.report.contention import contention
from steelyard.demo.report.evidence import evidence, pending
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.failures import failures, receipts
from steelyard.demo.report.indicators import indicators
from steelyard.demo.report.resources import resources
from steelyard.demo.report.review import review
from steelyard.demo.report.speech import Speech
from steelyard.demo.report.timeline import timeline
from steelyard.demo.report.top import footer, header, told
from steelyard.demo.report.usage import usage
from steelyard.demo.report.use import use
from steelyard.locale import LANGUAGES
from steelyard.reports.drawing.markup import Markup, join
from steelyard.reports.drawing.page import page

_SECTIONS = (
    header, told, resources, use, timeline, contention, failures, receipts, usage, review, indicators,
    evidence, pending, footer,
)  # fmt: skip


def build(facts: Facts) -> str:
    """The whole document as text. Nothing is asked of anybody."""
    bodies = {lang: _body(facts, Speech(lang)) for lang in LANGUAGES}
    return page(Speech(facts.lang)("title"), bodies, facts.lang if facts.lang in LANGUAGES else LANGUAGES[0])


def _body(facts: Facts, say: Speech) -> Markup:
    return join(make(facts, say) for make in _SECTIONS)
