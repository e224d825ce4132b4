r"""Backslash commands: from a `\` to the end of the line, or to a `\\`.

Each command is a function in one of the modules here, found by its name in `MODULES`, so that a script loads only what
it uses. `\d` and its family, `\l` and `\z` are `shell.describe`'s; here their arguments are read.
"""

from __future__ import annotations

from importlib import import_module

from pgrepl.api.opened import internal_error
from pgrepl.ground.errors import PgError
from pgrepl.shell.backslash.command import COMMANDS, BackslashCommand, Loop, Run, RunFile, command
from pgrepl.shell.scripts.lexer import Lexer
from pgrepl.shell.scripts.slash_lexer import Argument, Branch, Outcome
from pgrepl.shell.shell import Shell

MODULES = {
    "connecting": ("apply", "sync", "c", "connect", "conninfo", "encoding", "password", "restrict", "unrestrict"),
    "scripting": (
        "if", "elif", "else", "endif", "!", "cd", "echo", "i", "include", "include_relative", "ir", "o", "out",
        "qecho", "s", "warn", "getenv", "prompt", "set", "setenv", "timing", "unset",
    ),
    "copying": ("copy",),
    "formatting": ("C", "H", "T", "a", "f", "html", "pset", "t", "x"),
    "helping": ("?", "copyright", "errverbose", "h", "help", "q", "quit"),
    "queries": (
        "bind", "crosstabview", "e", "edit", "g", "gdesc", "gexec", "gset", "gx", "p", "print", "r", "reset", "w",
        "watch", "write",
    ),
    "definitions": ("ef", "sf", "sf+", "ev", "sv", "sv+"),
}  # fmt: skip

_MODULE_OF = {name: module for module, names in MODULES.items() for name in names}
LISTS = ("l", "list", "l+", "list+", "z", "zS")
_BRANCHING = ("if", "elif", "else", "endif")


def handle_slash(shell: Shell, lexer: Lexer, loop: Loop | None, run_file: RunFile) -> Outcome:
    """Run the command whose backslash the lexer has just read; `loop` is None for -c."""
    command = BackslashCommand(shell, lexer, loop, run_file)
    if shell.restrict_key is not None and command.name != "unrestrict":
        shell.error("backslash commands are restricted; only \\unrestrict is allowed")
        outcome = Outcome.FAILED
    else:
        outcome = _run(command)
    if outcome is Outcome.UNKNOWN:
        shell.error(f"invalid command \\{command.name}")
        if shell.interactive:
            shell.hint("Try \\? for help.")
        outcome = Outcome.FAILED
    if outcome is Outcome.FAILED:
        command.word(Argument.WHOLE_LINE)
    else:
        _eat_extra(command)
    command.slash.end()
    shell.query_out.flush()
    return outcome


def _run(command: BackslashCommand) -> Outcome:
    shell, name = command.shell, command.name
    active = command.active
    if shell.interactive and not active and name not in _BRANCHING:
        shell.warning(f"\\{name} command ignored; use \\endif or Ctrl-C to exit current \\if block")
    if name.startswith("d") or name in LISTS:
        name = "describe"
    elif name.startswith("lo_"):
        name = "lo_"
    elif name.lower() == "copy":
        name = "copy"
    module = _MODULE_OF.get(name)
    if module is not None:
        import_module(f"{__name__}.{module}")
    elif name not in COMMANDS:
        return Outcome.UNKNOWN
    entry = COMMANDS[name]
    if active or entry.always:
        result = _guarded(command, shell.own_commands.get(name, entry.run))
        outcome = result if isinstance(result, Outcome) else Outcome.NEXT if result else Outcome.FAILED
    else:
        outcome = Outcome.NEXT
        if entry.rest is not None:
            command.word(entry.rest)
    if outcome is Outcome.SEND and command.loop is not None and not command.loop.query:
        # With an empty buffer the previous query is sent again.
        command.loop.query.text = command.loop.previous
    return outcome


def _guarded(command: BackslashCommand, run: Run) -> Outcome | bool:
    """Run the command; an internal error is reported like any other."""
    try:
        return run(command)
    except PgError as error:
        command.shell.report(error.report, None)
    except Exception as problem:
        command.shell.report(internal_error(problem).report, None)
    return False


def _eat_extra(command: BackslashCommand) -> None:
    """Warn of extra arguments, in which nothing is evaluated."""
    shell = command.shell
    active = command.active
    shell.conditionals.push(Branch.IGNORED)
    try:
        while (extra := command.word()) is not None:
            if active:
                shell.warning(f'\\{command.name}: extra argument "{extra}" ignored')
    finally:
        shell.conditionals.pop()


@command("describe")
def slash_describe(c: BackslashCommand) -> Outcome:
    patterns = []
    first = c.word(semicolon=True)
    if first is not None:
        patterns.append(first)
        patterns += _more_patterns(c)
    from pgrepl.shell import describe

    known = describe.run(c.shell, c.name, patterns)
    return Outcome.UNKNOWN if known is None else Outcome.NEXT if known else Outcome.FAILED


def _more_patterns(c: BackslashCommand) -> list[str]:
    r"""The arguments after the first: of `\df` and `\do` types, of `\drds` a database, of `\dAc` a second pattern."""
    name = c.name
    if name.startswith(("df", "do")):
        return c.words(semicolon=True)
    if name.startswith("drds") or (name.startswith("dA") and name[2:3] not in ("", "+")):
        second = c.word(semicolon=True)
        return [second] if second is not None else []
    return []


_LARGE_OBJECTS = ("lo_export", "lo_import", "lo_unlink")


@command("lo_")
def large_object(c: BackslashCommand) -> Outcome:
    c.word(semicolon=True)
    c.word(semicolon=True)
    if c.name in ("lo_list", "lo_list+"):
        from pgrepl.shell import describe

        return Outcome.NEXT if describe.run(c.shell, c.name.replace("lo_list", "dl"), ()) else Outcome.FAILED
    if c.name not in _LARGE_OBJECTS:
        return Outcome.UNKNOWN
    c.shell.error(f"\\{c.name} is not supported")
    return Outcome.FAILED
