"""A command as the framework sees it: the function of a session, plus the options that all share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand

from steelyard.cli import failure
from steelyard.cli.help_pages import command_help
from steelyard.cli.session import Connect, Session
from steelyard.model.errors import SteelyardError

Function = Callable[..., int | None]
#: The framework's base of all wrong usage, which it does not name in public.
_WRONG_USAGE: type[Exception] = typer.BadParameter.__bases__[0]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SHARED = {
    "output": Annotated[str | None, typer.Option("--output", "-o", metavar="table|json|yaml")],
    "lang": Annotated[str | None, typer.Option("--lang", metavar="zh|en")],
    "url": Annotated[str | None, typer.Option("--url", metavar="URL")],
}


class Command(TyperCommand):
    """A command whose help page is ours."""

    full_name = ""
    language = "en"

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help page."""
        formatter.write(command_help(self.full_name, self.params, self.language))


def build(
    name: str, function: Function, lang: str, environ: Mapping[str, str], connect: Connect | None = None
) -> Command:
    """The framework's command for a function whose first parameter is the session."""
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1:]
    shared = [
        inspect.Parameter(key, _KEYWORD, default=None, annotation=annotation)
        for key, annotation in _SHARED.items()
        if key not in signature.parameters
    ]
    fixed = [parameter.replace(kind=_KEYWORD) for parameter in own]

    def run(**values: Any) -> int:
        common = {parameter.name: values.pop(parameter.name) for parameter in shared}
        return _guarded(
            lambda: Session(lang, environ, common.get("output"), common.get("url"), connect),
            functools.partial(function, **values),
            lang,
        )

    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*fixed, *shared], return_annotation=int
    )
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*fixed, *shared]}
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=Command, context_settings={"help_option_names": ["-h", "--help"]})(run)
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    command.full_name, command.language = name, lang
    return command


def _guarded(make: Callable[[], Session], act: Callable[[Session], int | None], lang: str) -> int:
    """Runs the command; errors of ours become sentences, whatever the framework would make of them."""
    try:
        session = make()
        try:
            return act(session) or failure.OK
        finally:
            session.close()
    except SteelyardError as error:
        return failure.report(error, lang)
    except BrokenPipeError as error:
        raise failure.ReaderLeftError from error


def invoke(command: Command, arguments: list[str], lang: str) -> int:
    """Reads the arguments and runs the command; the exit status."""
    try:
        done = command.main(arguments, f"steelyard {command.full_name}", standalone_mode=False)
    except _WRONG_USAGE as error:
        return failure.usage(error, command.full_name, lang)
    return done if isinstance(done, int) else failure.OK
