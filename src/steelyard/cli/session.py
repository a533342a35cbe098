"""One call of the command line: its language, its form of output, its way to the server.

Every command is a function of a session. Nothing heavy is imported here: the SDK is loaded when the
server is first asked, tables and YAML when they are first drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from steelyard import locale
from steelyard.cli import table
from steelyard.cli.safe import one_line, to_json, visible
from steelyard.model.errors import InvalidError

if TYPE_CHECKING:
    from steelyard.client import Client

OUTPUTS = ("table", "json", "yaml")
#: (code of the heading, key or function of the row)
Column: TypeAlias = tuple[str, str | Callable[[Mapping[str, Any]], object]]


class Connect(Protocol):
    """Makes the client of a session."""

    def __call__(self, session: Session) -> Client:
        """The client, not yet connected."""
        ...


class Session:
    """What a command is given.

    `output` None: the command's own choice. `url` None: by environment and configuration.
    """

    def __init__(
        self,
        lang: str,
        environ: Mapping[str, str],
        output: str | None = None,
        url: str | None = None,
        connect: Connect | None = None,
    ) -> None:
        if output is not None and output not in OUTPUTS:
            raise InvalidError("output-unknown", output=output[:60], known="|".join(OUTPUTS))
        self.lang, self.environ, self.url = lang, environ, url
        self.output = output
        self._connect = connect
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The way to the server."""
        if self._client is None:
            connect: Connect = self._connect or table.load("steelyard.cli.connection:connect")
            self._client = connect(self)
        return self._client

    def close(self) -> None:
        """Ends the connection."""
        if self._client is not None:
            self._client.close()

    # --- texts ------------------------------------------------------------------------------------

    def text(self, code: str, /, **params: object) -> str:
        """A sentence in the session's language; parameters are made visible."""
        shown = {key: one_line(v) if isinstance(v, str) else v for key, v in params.items()}
        return locale.text(code, shown, self.lang)

    def word(self, kind: str, value: str | None) -> str:
        """A value of a closed list."""
        return one_line(locale.word(kind, value, self.lang))

    def reason(self, reason: Mapping[str, Any]) -> str:
        """A reason's sentence: made here where its code is known, else the server's."""
        known = locale.has(f"reason.{reason.get('code')}")
        theirs = reason.get("text") or reason["code"]
        return one_line(locale.reason_text(reason, self.lang) if known else theirs)

    def verdict(self, verdict: Mapping[str, Any]) -> str:
        """A verdict's sentence."""
        return one_line(locale.verdict_text(verdict, self.lang))

    def cause(self, verdict: Mapping[str, Any]) -> str:
        """The first sentence of a verdict: what happened."""
        return one_line(locale.verdict_cause(verdict, self.lang))

    def action(self, verdict: Mapping[str, Any]) -> str:
        """What to do about it."""
        return one_line(locale.text(f"verdict.action.{verdict.get('action')}", None, self.lang))

    def pointer(self, pointer: Mapping[str, Any]) -> str:
        """A piece of a verdict's evidence."""
        return one_line(locale.pointer_text(pointer, self.lang))

    def simulated(self, record: Mapping[str, Any]) -> str:
        """The mark of what is simulated, with a space before it; empty for what is real."""
        return f" [{self.text('cli.simulated')}]" if record.get("simulated") else ""

    # --- output -----------------------------------------------------------------------------------

    def line(self, text: str = "") -> None:
        """A line of text on standard output."""
        sys.stdout.write(visible(text) + "\n")

    def say(self, code: str, /, **params: object) -> None:
        """A sentence on standard output."""
        self.line(self.text(code, **params))

    def note(self, code: str, /, **params: object) -> None:
        """A sentence beside the result, on standard error."""
        sys.stdout.flush()
        sys.stderr.write(visible(self.text(code, **params)) + "\n")

    def emit(self, data: Any, draw: Callable[[], None], default: str = "table") -> None:
        """The result: as data, or drawn for people."""
        output = self.output or default
        if output == "json":
            sys.stdout.write(to_json(data) + "\n")
        elif output == "yaml":
            sys.stdout.write(table.load("steelyard.cli.tables:to_yaml")(data))
        else:
            draw()

    def table(self, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """A table for people."""
        table.load("steelyard.cli.tables:draw")(self, columns, rows)
