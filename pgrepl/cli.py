"""The command line: `pgrepl [OPTION]… [DBNAME [USERNAME]]` with psql's options, and subcommands of its own.

The options are declared to click and read by its parser; `shell.startup` applies them in their order on the command
line.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence

import click

# option: its short form and what it takes, if anything; the help page is shell/data/options.txt
OPTIONS: dict[str, tuple[str | None, str | None]] = {
    "catalog": (None, "PATH|URL"),
    "command": ("c", "COMMAND"),
    "conf": (None, "NAME=VALUE"),
    "csv": (None, None),
    "data-path": (None, "FOLDER|URI"),
    "dbname": ("d", "DBNAME"),
    "echo-all": ("a", None),
    "echo-errors": ("b", None),
    "echo-hidden": ("E", None),
    "echo-queries": ("e", None),
    "expanded": ("x", None),
    "field-separator": ("F", "STRING"),
    "field-separator-zero": ("z", None),
    "file": ("f", "FILENAME"),
    "host": ("h", "FOLDER"),
    "html": ("H", None),
    "json": (None, None),
    "list": ("l", None),
    "log-file": ("L", "FILENAME"),
    "master": (None, "URL"),
    "ndjson": (None, None),
    "no-align": ("A", None),
    "no-password": ("w", None),
    "no-psqlrc": ("X", None),
    "no-readline": ("n", None),
    "output": ("o", "FILENAME"),
    "password": ("W", None),
    "port": ("p", "PORT"),
    "pset": ("P", "VAR[=ARG]"),
    "quiet": ("q", None),
    "record-separator": ("R", "STRING"),
    "record-separator-zero": ("0", None),
    "remote": (None, "URL"),
    "set": ("v", "NAME=VALUE"),
    "single-line": ("S", None),
    "single-step": ("s", None),
    "single-transaction": ("1", None),
    "table-attr": ("T", "TEXT"),
    "tuples-only": ("t", None),
    "username": ("U", "USERNAME"),
    "version": ("V", None),
}
_OTHER_NAMES = {"set": "--variable"}
_FAILURE, _NO_CONNECTION, _INTERRUPTED = 1, 2, 130
_HELP = {"-?": "options", "--help": "options"}


class _Shell(click.Command):
    """The options of psql; many may be repeated, and all keep their order."""

    def __init__(self) -> None:
        super().__init__(
            "pgrepl", params=[_option(name, *form) for name, form in OPTIONS.items()], add_help_option=False
        )

    def read(self, arguments: Sequence[str]) -> tuple[list[tuple[str, str | None]], list[str]]:
        """(option, value) pairs in their order, and the words that are no options."""
        parser = self.make_parser(click.Context(self))
        values, words, order = parser.parse_args(list(arguments))
        given: list[tuple[str, str | None]] = []
        taken: dict[str, int] = {}
        for parameter in order:
            key = str(parameter.name)
            at = taken.get(key, 0)
            taken[key] = at + 1
            takes_value = not getattr(parameter, "count", False)
            given.append((key.replace("_", "-"), values[key][at] if takes_value else None))
        return given, words


class _Ambiguous(Exception):
    """A shortened option that stands for several options; the message is getopt_long's."""


def _option(name: str, short: str | None, takes: str | None) -> click.Option:
    names = [f"-{short}"] if short else []
    names.append(f"--{name}")
    if name in _OTHER_NAMES:
        names.append(_OTHER_NAMES[name])
    names.append(name.replace("-", "_"))
    if takes is None:
        return click.Option(names, count=True)
    return click.Option(names, multiple=True, metavar=takes)


def main(arguments: Sequence[str] | None = None) -> None:
    """The program's entry point."""
    try:
        sys.exit(_run_configured(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # while modules are loaded, too, which is most of a short run
        sys.exit(_INTERRUPTED)


def _run_configured(arguments: Sequence[str]) -> int:
    _collect_seldom()
    from pgrepl.shell import config_file

    try:
        config_file.apply(arguments, os.environ)
    except config_file.BadConfigFile as problem:
        sys.stderr.write(f"pgrepl: error: {problem}\n")
        return _FAILURE
    _leave_pandas_out(arguments)
    return run(arguments)


def _collect_seldom() -> None:
    """Collect garbage seldom, and not at the exit: nearly all objects that a start makes live until then."""
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


class _WithoutPandas:
    """An import hook that hides pandas: pyarrow would import it at its first array, which takes long."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


def _leave_pandas_out(arguments: Sequence[str]) -> None:
    """Hide pandas, unless Spark Connect may need it."""
    if not os.environ.get("PGREPL_REMOTE") and not any(word.startswith("--r") for word in arguments):
        sys.meta_path.insert(0, _WithoutPandas())


def run(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in _SUBCOMMANDS:
        return _SUBCOMMANDS[arguments[0]](list(arguments[1:]))
    from pgrepl.shell import startup

    topic = _help_topic(arguments)
    if topic is not None:
        return startup.run([("help", topic)], [])
    later = next((word for word in arguments if word in _SUBCOMMANDS), None)
    try:
        options, words = _read(list(arguments))
    except _Ambiguous as problem:
        return startup.usage_error(str(problem))
    except (click.BadOptionUsage, click.NoSuchOption) as problem:
        similar = None if later is not None else _similar_command(arguments)
        if similar is not None:
            return startup.unknown_command(arguments[0], similar)
        return startup.usage_error(_complaint(problem), later)
    code = startup.run(options, words)
    if code == _NO_CONNECTION:  # a word was taken for a database or a role
        if later is not None:
            if later in words:
                startup.hint_at_command(later)
        elif (similar := _similar_command(arguments)) is not None:
            startup.hint_at_similar_command(similar)
    return code


def _similar_command(arguments: Sequence[str]) -> str | None:
    """The subcommand that the first word may have been meant to be."""
    word = arguments[0] if arguments else "-"
    if word.startswith("-") or "=" in word or "://" in word:
        return None
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.lower(), _SUBCOMMANDS, n=1, cutoff=0.7)), None)


def _apply(arguments: list[str]) -> int:
    from pgrepl.shell.applying import apply

    return apply(arguments)


def _changes(arguments: list[str]) -> int:
    from pgrepl.shell.changes import changes

    return changes(arguments)


def _backup(arguments: list[str]) -> int:
    from pgrepl.shell.backup import backup

    return backup(arguments)


def _restore(arguments: list[str]) -> int:
    from pgrepl.shell.backup import restore

    return restore(arguments)


def _check(arguments: list[str]) -> int:
    from pgrepl.shell.check.command import check

    return check(arguments)


def _diff(arguments: list[str]) -> int:
    from pgrepl.shell.comparing import diff

    return diff(arguments)


def _plan(arguments: list[str]) -> int:
    from pgrepl.shell.comparing import plan

    return plan(arguments)


def _describe(arguments: list[str]) -> int:
    from pgrepl.shell.describe_dump import describe

    return describe(arguments)


def _dump(arguments: list[str]) -> int:
    from pgrepl.shell.describe_dump import dump

    return dump(arguments)


def _import_schema(arguments: list[str]) -> int:
    from pgrepl.shell.import_schema import import_schema

    return import_schema(arguments)


def _run_scripts(arguments: list[str]) -> int:
    from pgrepl.shell.expected import run_scripts

    return run_scripts(arguments)


def _serve(arguments: list[str]) -> int:
    from pgrepl.server.command import serve

    return serve(arguments)


def _status(arguments: list[str]) -> int:
    from pgrepl.shell.status import status

    return status(arguments)


def _sync(arguments: list[str]) -> int:
    from pgrepl.shell.applying import sync

    return sync(arguments)


def _standby(arguments: list[str]) -> int:
    from pgrepl.shell.standby import standby

    return standby(arguments)


def _verify(arguments: list[str]) -> int:
    from pgrepl.shell.verify import verify

    return verify(arguments)


_SUBCOMMANDS: dict[str, Callable[[list[str]], int]] = {
    "apply": _apply,
    "backup": _backup,
    "changes": _changes,
    "check": _check,
    "describe": _describe,
    "diff": _diff,
    "dump": _dump,
    "import-schema": _import_schema,
    "plan": _plan,
    "restore": _restore,
    "run": _run_scripts,
    "serve": _serve,
    "status": _status,
    "sync": _sync,
    "standby": _standby,
    "verify": _verify,
}


def _help_topic(arguments: Sequence[str]) -> str | None:
    for argument in arguments:
        if argument == "--":
            return None
        if argument in _HELP:
            return _HELP[argument]
        if argument.startswith("--help="):
            return argument.removeprefix("--help=")
    return None


def _read(arguments: list[str]) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Read the options. A long option may be shortened to an unambiguous prefix."""
    shell = _Shell()
    try:
        return shell.read(arguments)
    except click.NoSuchOption as problem:
        short = problem.option_name
        longer = [f"--{name}" for name in [*OPTIONS, "variable"] if f"--{name}".startswith(short)]
        if not short.startswith("--") or not longer:
            raise
        if len(longer) > 1:
            choices = " ".join(f"'{name}'" for name in longer)
            raise _Ambiguous(f"option '{short}' is ambiguous; possibilities: {choices}") from problem
        at = next(i for i, argument in enumerate(arguments) if argument.partition("=")[0] == short)
        arguments[at] = longer[0] + arguments[at][len(short) :]
        return _read(arguments)


def _complaint(problem: click.NoSuchOption | click.BadOptionUsage) -> str:
    """The error in getopt_long's words."""
    name = str(problem.option_name)
    long = name.startswith("--")
    if isinstance(problem, click.NoSuchOption):
        return f"unrecognized option '{name}'" if long else f"invalid option -- '{name.lstrip('-')}'"
    if "does not take a value" in problem.message:
        return f"option '{name}' doesn't allow an argument"
    return f"option '{name}' requires an argument" if long else f"option requires an argument -- '{name.lstrip('-')}'"


if __name__ == "__main__":
    main()
