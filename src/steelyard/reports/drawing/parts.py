"""Small pieces of pages: tables, badges, sections, notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steelyard.reports.drawing.markup import Child, Markup, el


def section(anchor: str, heading: str, *children: Child, lead: str | None = None) -> Markup:
    """A part of the page with its heading and, under it, one sentence that says what to see."""
    return el(
        "section",
        el("h2", heading),
        el("p", lead, cls="lead") if lead else None,
        children,
        id=anchor,
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[Child]], *, figures: Sequence[int] = (), cls: str = ""
) -> Markup:
    """A table. `figures` are the columns whose cells are numbers. It scrolls where it is too wide."""
    right = set(figures)

    def cells(name: str, row: Sequence[Child]) -> list[Markup]:
        return [
            el(name, cell, cls="num" if index in right else None, scope="col" if name == "th" else None)
            for index, cell in enumerate(row)
        ]

    return el(
        "div",
        el(
            "table",
            el("thead", el("tr", cells("th", head))),
            el("tbody", [el("tr", cells("td", row)) for row in rows]),
            cls=cls or None,
        ),
        cls="scroll",
    )


def chart(caption: str, picture: Markup, legend: Markup | None = None) -> Markup:
    """A picture with its caption above and its legend below; it scrolls where the page is narrow."""
    return el("figure", el("figcaption", caption), el("div", picture, cls="scroll"), legend, cls="plate")


def badge(text: str, kind: str) -> Markup:
    """A word in a frame: kind `ok`, `bad`, `pending`, `sim` or `plain`."""
    return el("span", text, cls=f"badge {kind}")


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Terms with what is said of each."""
    return el("dl", [[el("dt", term), el("dd", value)] for term, value in pairs], cls="facts")


def note(*children: Child, kind: str = "plain") -> Markup:
    """A paragraph set apart."""
    return el("p", children, cls=f"remark {kind}")
