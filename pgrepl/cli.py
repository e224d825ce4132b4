"""The command line: `pgrepl [OPTION]… [DBNAME [USERNAME]]` with psql's options, and subcommands of its own.

`shell.options` reads the options, and `shell.startup` applies them in their order on the command line. Subcommands are
click's.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from pgrepl.internals import pyarrow
from pgrepl.internals.pyarrow import leave_documentation_out
from pgrepl.shell import options

_FAILURE, _NO_CONNECTION, _INTERRUPTED = 1, 2, 130
_BAD = 2  # the exit code of an error where 1 is an answer
_MEANT = {"help": "--help", "version": "--version", "import": "import-schema"}
_HELP = {"-?": "options", "--help": "options"}


def main(arguments: Sequence[str] | None = None) -> None:
    """The program's entry point."""
    try:
        sys.exit(_run_configured(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # while modules are loaded, too, which is most of a short run
        sys.exit(_INTERRUPTED)


def _run_configured(arguments: Sequence[str]) -> int:
    _collect_seldom()
    try:
        options.apply(arguments, os.environ)
    except options.BadConfigFile as problem:
        sys.stderr.write(f"pgrepl: error: {problem}\n")
        return _FAILURE
    _leave_pandas_out(arguments)
    leave_documentation_out()
    return run(arguments)


def _collect_seldom() -> None:
    """Collect garbage seldom, and not at the exit: nearly all objects that a start makes live until then."""
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


def _leave_pandas_out(arguments: Sequence[str]) -> None:
    """Hide pandas, unless Spark Connect may need it."""
    if not os.environ.get("PGREPL_REMOTE") and not any(word.startswith("--r") for word in arguments):
        pyarrow.hide()


def run(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in _SUBCOMMANDS:
        from pgrepl.shell.commands import subcommand

        module, name = _SUBCOMMANDS[arguments[0]]
        failure = _BAD if arguments[0] in _TELLING else _FAILURE
        return subcommand.run(getattr(import_module(module), name), arguments[1:], failure=failure)
    from pgrepl.shell import startup

    topic = _help_topic(arguments)
    if topic is not None:
        return startup.run([("help", topic)], [])
    later = next((word for word in arguments if word in _SUBCOMMANDS), None)
    try:
        given, words = options.read(arguments)
    except options.BadOption as problem:
        similar = None if later is not None else _similar_command(arguments)
        if similar is not None:
            return startup.unknown_command(arguments[0], similar)
        return startup.usage_error(str(problem), later)
    code = startup.run(given, words)
    if code == _NO_CONNECTION:  # a word was taken for a database or a role
        if later is not None:
            if later in words:
                startup.hint_at_command(later)
        elif (similar := _similar_command(arguments)) is not None:
            startup.hint_at_similar_command(similar)
        elif arguments and _is_plain(arguments[0]):
            startup.hint_at_unknown_word(arguments[0])
    return code


def _similar_command(arguments: Sequence[str]) -> str | None:
    """The subcommand that the first word may have been meant to be."""
    word = arguments[0] if arguments else "-"
    if not _is_plain(word):
        return None
    if word in _MEANT:
        return _MEANT[word]
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.lower(), _SUBCOMMANDS, n=1, cutoff=0.7)), None)


def _is_plain(word: str) -> bool:
    """Neither an option nor a connection string."""
    return not (word.startswith("-") or "=" in word or "://" in word)


_TELLING = ("compare", "diff", "repair")  # whose exit code 1 says that something differs
_SUBCOMMANDS = {  # modules and click's commands
    "apply": ("pgrepl.shell.commands.applying", "apply_command"),
    "backup": ("pgrepl.shell.commands.maintenance", "backup_command"),
    "changes": ("pgrepl.shell.commands.exporting", "changes_command"),
    "check": ("pgrepl.shell.commands.check", "check_command"),
    "compare": ("pgrepl.shell.commands.compare", "compare_command"),
    "conflicts": ("pgrepl.shell.commands.status", "conflicts_group"),
    "describe": ("pgrepl.shell.commands.describe_dump", "describe_command"),
    "diff": ("pgrepl.shell.commands.comparing", "diff_command"),
    "dump": ("pgrepl.shell.commands.describe_dump", "dump_command"),
    "iceberg": ("pgrepl.shell.commands.exporting", "iceberg_group"),
    "import-schema": ("pgrepl.shell.commands.import_schema", "import_schema_command"),
    "plan": ("pgrepl.shell.commands.comparing", "plan_command"),
    "repair": ("pgrepl.shell.commands.compare", "repair_command"),
    "restore": ("pgrepl.shell.commands.maintenance", "restore_command"),
    "run": ("pgrepl.shell.commands.check", "run_command"),
    "serve": ("pgrepl.server.command", "serve_command"),
    "status": ("pgrepl.shell.commands.status", "status_command"),
    "sync": ("pgrepl.shell.commands.applying", "sync_command"),
    "standby": ("pgrepl.shell.commands.maintenance", "standby_group"),
    "upgrade": ("pgrepl.shell.commands.upgrade", "upgrade_command"),
    "verify": ("pgrepl.shell.commands.maintenance", "verify_command"),
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


if __name__ == "__main__":
    main()
