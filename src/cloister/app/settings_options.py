"""Command-line options made from the fields of a settings class, so that none is ever missing.

The class is imported when a command's options are asked for, not when the command is registered:
``cloister --help`` stays quick.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import click
from typer.core import TyperCommand, TyperOption

from cloister.app.option_types import checked_type

if TYPE_CHECKING:
    from cloister.core.settings import Settings

__all__ = ["SettingsCommand", "documented_fields", "option_name", "option_values"]

_GIVEN = "cloister.settings"


class SettingsCommand(TyperCommand):
    """A command that takes every field of a settings class as an option beside its own.

    What was given is found with `option_values`; the command's function does not get it as
    arguments.
    """

    settings_class: Callable[[], type[Settings]]
    panel = "Settings"

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write plain help: so many options do not fit a table of a terminal's width."""
        click.Command.format_help(self, ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then those made from fields."""
        made = set(type(self).settings_class().model_fields)
        params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for title, wanted in (("Options", False), (self.panel, True)):
            chosen = [param for param in params if (param.name in made) is wanted]
            with formatter.section(title):
                formatter.write_dl([_help_record(param, ctx) for param in chosen])

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own options and those made from fields."""
        params = super().get_params(ctx)
        return [*params[:-1], *self._made(), *params[-1:]]  # --help stays last

    def _made(self) -> list[click.Parameter]:
        kind = type(self).settings_class()
        helps = _without_repeats(documented_fields(kind))
        return [
            _option(name, field.annotation, helps.get(name, ""), _default(field))
            for name, field in kind.model_fields.items()
        ]

    def invoke(self, ctx: click.Context) -> Any:
        """Put aside what was given as settings, prepare, then call the function."""
        names = type(self).settings_class().model_fields
        ctx.meta[_GIVEN] = {
            name: value for name in names if (value := ctx.params.pop(name, None)) is not None
        }
        self.prepare(ctx)
        return super().invoke(ctx)

    def prepare(self, ctx: click.Context) -> None:
        """Do what has to be done before the work: what is wrong here is wrong usage."""


def _help_record(param: click.Option, ctx: click.Context) -> tuple[str, str]:
    name, text = param.get_help_record(ctx) or ("", "")
    return name, text.replace("\\[", "[")  # Typer writes for rich


def option_values(ctx: click.Context) -> dict[str, Any]:
    """Return the settings given on the command line, by field."""
    given: dict[str, Any] = ctx.meta[_GIVEN]
    return given


def option_name(field: str) -> str:
    """Return the option of a field.

    Examples
    --------
    >>> option_name("queries_per_round")
    '--queries-per-round'
    """
    return "--" + field.replace("_", "-")


def documented_fields(kind: type) -> dict[str, str]:
    """Read what a class's docstring says of each parameter.

    Examples
    --------
    >>> class Walk:
    ...     '''A walk.
    ...
    ...     Parameters
    ...     ----------
    ...     steps, stride
    ...         How many, and how
    ...         ``long``.
    ...     '''
    >>> documented_fields(Walk)
    {'steps': 'How many, and how long.', 'stride': 'How many, and how long.'}
    """
    import inspect

    text = inspect.getdoc(kind) or ""
    _, _, section = text.partition("Parameters\n----------\n")
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line.startswith(" "):
            for name in names:
                found[name].append(_plain(line.strip()))
        elif re.fullmatch(r"-+", line):
            break  # the next section
        else:
            names = [name.strip() for name in line.split(",") if name.strip()]
            found |= {name: [] for name in names}
    return {name: " ".join(lines) for name, lines in found.items() if lines}


def _plain(text: str) -> str:
    """Leave out the marks of a docstring."""
    text = re.sub(r":\w+:`~?([^`]+)`", lambda match: match[1].rsplit(".", 1)[-1], text)
    return text.replace("``", "")


def _without_repeats(helps: dict[str, str]) -> dict[str, str]:
    """Say what several fields share with the first of them."""
    first: dict[str, str] = {}
    for name, text in helps.items():
        first.setdefault(text, name)
    return {
        name: text if first[text] == name else f"See {option_name(first[text])}."
        for name, text in helps.items()
    }


def _default(field: Any) -> str:
    if field.is_required() or field.default in (None, "", ()):
        return ""
    if isinstance(field.default, bool):
        return "yes" if field.default else "no"
    if isinstance(field.default, tuple):
        return ",".join(map(str, field.default))
    return str(field.default)


def _option(name: str, annotation: Any, text: str, default: str) -> TyperOption:
    """Return the option of one field; a value is checked by the settings class as well."""
    kind = _without_none(annotation)
    option = option_name(name)
    told = f"{text}  [default: {default}]".strip() if default else text
    if kind is bool:
        declared = [name, f"{option}/--no-{option.removeprefix('--')}"]
        return TyperOption(param_decls=declared, is_flag=True, default=None, help=told)
    return TyperOption(param_decls=[name, option], type=_click_type(kind), help=told)


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else str
    return annotation


def _click_type(kind: Any) -> click.ParamType[Any]:
    if get_origin(kind) is Literal:
        return click.Choice([str(value) for value in get_args(kind)])
    if get_origin(kind) is tuple:
        return _List()
    plain: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT}
    return checked_type(plain.get(kind, click.STRING))


class _List(click.ParamType["list[str]"]):
    """Values with commas between them."""

    name = "a,b,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()]
