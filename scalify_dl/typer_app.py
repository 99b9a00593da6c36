"""The same commands for typer: help, and every way to write an argument or to get it wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperOption

from .arguments import Argument, Command, Option


def typer_app(commands: Sequence[Command], name: str, help: str, groups: Mapping[str, str]) -> typer.Typer:
    """Commands as an application of this name; `groups`: what those of each group are for."""
    app = typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=help, invoke_without_command=True)(_root)
    apps = {group: typer.Typer(help=text, no_args_is_help=True) for group, text in groups.items()}
    for group, inner in apps.items():
        app.add_typer(inner, name=group)
    for command in commands:
        into = apps[command.group] if command.group else app
        into.command(command.name, cls=_Once, help=command.get().__doc__)(_function(command))
    return app


class _Once(TyperCommand):
    """A value that is given twice is a mistake: the last one does not win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, named = self.make_parser(ctx).parse_args(list(args))
        for param in named:
            if isinstance(param, TyperOption) and not (param.multiple or param.is_flag) and named.count(param) > 1:
                raise typer.BadParameter("it is given more than once; say one value", ctx, param)
        return super().parse_args(ctx, args)


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print plainly, as under NO_COLOR=1.")] = False,
) -> None:
    if version and context.invoked_subcommand:
        raise typer.BadParameter(f"it stands alone, without {context.invoked_subcommand}", param_hint="--version")
    if version:
        from scalify_dl import __version__

        print(f"dlverify {__version__}")
        raise typer.Exit


def _function(command: Command) -> Callable[..., None]:
    """A function with the signature that typer reads."""

    def run(**given: Any) -> None:
        raise typer.Exit(command(**given))

    flat = [p.replace(kind=Parameter.KEYWORD_ONLY, annotation=_annotation(p.annotation)) for p in command.parameters()]
    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    return run


def _annotation(declared: Any) -> Any:
    type_, said = get_args(declared)
    if isinstance(said, Argument):
        return Annotated[type_, typer.Argument(metavar=said.metavar, help=said.help)]
    assert isinstance(said, Option)
    check = _checked(said.check) if said.check else None
    return Annotated[
        type_, typer.Option(*said.names, metavar=said.metavar, help=said.help, callback=check, min=said.least)
    ]


def _checked(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(given: Any) -> Any:
        try:
            return None if given is None else check(given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return checked
