"""What the person at the terminal sees: the chapter under way, a line for each that is done, a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from steelyard.demo.expect import Param, Result, Said
from steelyard.locale import text


class Screen:
    """One language, one console. Nothing that came over the API is taken for markup."""

    def __init__(self, lang: str, steps: int, console: Console | None = None) -> None:
        self.lang = lang
        self.console = console or Console(highlight=False)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=steps)

    @contextmanager
    def live(self) -> Iterator[None]:
        """While the story goes on."""
        with self._progress:
            yield

    def say(self, code: str, **params: Param) -> None:
        """One line."""
        self.console.print(escape(text(code, params, self.lang)))

    def begin(self, step: str) -> None:
        """A chapter begins."""
        self._progress.update(self._task, description=escape(self._title(step)))

    def end(self, step: str, seconds: float, results: Iterable[Result], error: str | None) -> None:
        """A chapter is over: one line, and one more for each thing that is not as expected."""
        listed = list(results)
        bad = [result for result in listed if not result.ok]
        mark = "[red]✗[/red]" if bad or error else "[green]✓[/green]"
        count = f"{len(listed) - len(bad)}/{len(listed)}" if listed else ""
        self.console.print(f"{mark} {escape(self._title(step))}  [dim]{seconds:.1f} s  {count}[/dim]")
        if error:
            self.console.print(f"    [red]{escape(error)}[/red]")
        for result in bad:
            expected, seen = escape(self.sentence(result.expected)), escape(self.sentence(result.seen))
            self.console.print(f"    [red]{expected}[/red] — {seen}")
        self._progress.advance(self._task)

    def table(self, results: Iterable[Result]) -> None:
        """Everything that was expected, with what was seen."""
        table = Table(show_lines=False, pad_edge=False, box=None, header_style="bold")
        heads = ("demo.table.ok", "demo.table.expected", "demo.table.seen", "demo.table.rows")
        for head, ratio in zip(heads, (None, 5, 6, 2), strict=True):
            table.add_column(text(head, None, self.lang), ratio=ratio, overflow="fold")
        for result in results:
            table.add_row(
                "[green]✓[/green]" if result.ok else "[red]✗[/red]",
                escape(self.sentence(result.expected)),
                escape(self.sentence(result.seen)),
                f"[dim]{escape(' '.join(result.rows))}[/dim]",
            )
        self.console.print()
        self.console.print(table)
        self.console.print()

    def sentence(self, said: Said) -> str:
        """The sentence in the screen's language."""
        return text(said.code, said.params, self.lang)

    def _title(self, step: str) -> str:
        return text(f"demo.step.{step}", None, self.lang)
