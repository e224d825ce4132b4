r"""`\if` and its kin, variables and the environment, files, streams and the operating system (`\set \i \o \echo \! \cd`
…).
"""

from __future__ import annotations

import os
import subprocess

from pgrepl.shell import shell, streams
from pgrepl.shell.backslash.command import BackslashCommand, command, expand_tilde
from pgrepl.shell.scripts.slash_lexer import Argument, Branch
from pgrepl.shell.shell import SUCCESS
from pgrepl.shell.streams import standard_input
from pgrepl.shell.variables import parse_bool


@command("if", always=True)
def begin(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if not stack.active:
        stack.push(Branch.IGNORED)
        _remember(c)
        c.words()
        return True
    stack.push(Branch.TRUE)
    _remember(c)
    if not _is_true(c, "\\if expression"):
        stack.turn(Branch.FALSE)
    return True


@command("elif", always=True)
def otherwise_if(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if stack.branch is Branch.TRUE:
        _remember(c)
        stack.turn(Branch.IGNORED)
        c.words()
    elif stack.branch is Branch.FALSE:
        _discard(c)
        stack.turn(Branch.TRUE)
        if not _is_true(c, "\\elif expression"):
            stack.turn(Branch.FALSE)
    elif stack.branch is Branch.IGNORED:
        _discard(c)
        c.words()
    else:
        return _misplaced(c)
    return True


@command("else", always=True)
def otherwise(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if stack.branch is Branch.TRUE:
        _remember(c)
        stack.turn(Branch.ELSE_FALSE)
    elif stack.branch in (Branch.FALSE, Branch.IGNORED):
        _discard(c)
        stack.turn(Branch.ELSE_TRUE if stack.branch is Branch.FALSE else Branch.ELSE_FALSE)
    else:
        return _misplaced(c)
    return True


@command("endif", always=True)
def end(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if not stack:
        return _misplaced(c)
    if not stack.active:
        _discard(c)
    stack.pop()
    return True


def _misplaced(c: BackslashCommand) -> bool:
    problem = "cannot occur after \\else" if c.shell.conditionals else "no matching \\if"
    c.shell.error(f"\\{c.name}: {problem}")
    return False


def _is_true(c: BackslashCommand, what: str) -> bool:
    expression = " ".join(c.words())
    value = parse_bool(expression)
    if value is None:
        c.shell.error(f'unrecognized value "{expression}" for "{what}": Boolean expected')
    return bool(value)


def _remember(c: BackslashCommand) -> None:
    length = len(c.query) if c.query is not None else None
    c.shell.conditionals.remember(length, c.lexer.save())


def _discard(c: BackslashCommand) -> None:
    """Drop the query text of the branch that was skipped."""
    length, lexer = c.shell.conditionals.remembered()
    if c.query is not None and length is not None:
        c.query.text = c.query.text[:length]
    if lexer is not None:
        c.lexer.restore(lexer)


# --- values -----------------------------------------------------------------------------------------------------------


@command("set")
def set_variable(c: BackslashCommand) -> bool:
    name = c.word()
    if name is None:
        for variable, value in c.shell.variables:
            c.shell.say(f"{variable} = '{value}'")
        return True
    return c.shell.variables.set(name, "".join(c.words()))


@command("unset")
def unset_variable(c: BackslashCommand) -> bool:
    name = c.word()
    return c.shell.variables.set(name, None) if name is not None else c.missing_argument()


@command("getenv")
def get_environment(c: BackslashCommand) -> bool:
    variable, name = c.word(), c.word()
    if variable is None or name is None:
        return c.missing_argument()
    value = os.environ.get(name)
    return value is None or c.shell.variables.set(variable, value)


@command("setenv")
def set_environment(c: BackslashCommand) -> bool:
    name, value = c.word(), c.word()
    if name is None:
        return c.missing_argument()
    if "=" in name:
        c.shell.error('\\setenv: environment variable name must not contain "="')
        return False
    if value is None:
        os.environ.pop(name, None)
    elif name:
        os.environ[name] = value
    return True


@command("prompt")
def prompt(c: BackslashCommand) -> bool:
    first, second = c.word(), c.word()
    if first is None:
        return c.missing_argument()
    text, name = (first, second) if second is not None else ("", first)
    value: str | None
    try:
        with shell.stops_waiting():
            if c.shell.source_name is None:
                value = c.shell.ask(text, echo=True)
            else:
                c.shell.stdout.write(text)
                c.shell.stdout.flush()
                value = standard_input().read_line()
    except KeyboardInterrupt:
        return False
    if value is None:
        c.shell.error("\\prompt: could not read value for variable")
        return False
    return c.shell.variables.set(name, value)


@command("timing")
def timing(c: BackslashCommand) -> bool:
    value = c.word()
    ok = True
    if value is None:
        c.shell.timing = not c.shell.timing
    else:
        on = parse_bool(value)
        if on is None:
            c.shell.error(f'unrecognized value "{value}" for "\\timing": Boolean expected')
            ok = False
        else:
            c.shell.timing = on
    if not c.shell.quiet:
        c.shell.say("Timing is on." if c.shell.timing else "Timing is off.")
    return ok


# --- files ------------------------------------------------------------------------------------------------------------


@command("i", "include", "ir", "include_relative")
def include(c: BackslashCommand) -> bool:
    name = c.word(semicolon=True)
    if name is None:
        return c.missing_argument()
    return c.run_file(c.shell, expand_tilde(name), relative=c.name in ("ir", "include_relative")) == SUCCESS


@command("o", "out", rest=Argument.FILE_OR_PIPE)
def output(c: BackslashCommand) -> bool:
    name = c.word(Argument.FILE_OR_PIPE, semicolon=True)
    return c.shell.send_output_to(expand_tilde(name) if name else None)


@command("echo", "qecho", "warn")
def echo(c: BackslashCommand) -> bool:
    shell = c.shell
    stream = {"echo": shell.stdout, "qecho": shell.query_out, "warn": shell.stderr}[c.name]
    between, newline = "", "\n"
    while (argument := c.argument()) is not None:
        if not between and newline and not argument.quote and argument.text == "-n":
            newline = ""
        else:
            # word by word: an error in the next one comes after this one
            stream.write(between + argument.text)
            between = " "
    stream.write(newline)
    return True


@command("!", rest=Argument.WHOLE_LINE)
def shell_escape(c: BackslashCommand) -> bool:
    text = c.word(Argument.WHOLE_LINE)
    c.shell.stdout.flush()
    if text is None:
        text = f"exec {os.environ.get('SHELL', '/bin/sh')}"
    status = subprocess.run(text, shell=True, check=False).returncode
    c.shell.set_shell_result(status)
    return True


@command("cd")
def change_folder(c: BackslashCommand) -> bool:
    folder = c.word(semicolon=True)
    if folder is None:
        folder = os.path.expanduser("~")
    try:
        os.chdir(folder)
    except OSError as error:
        c.shell.error(f'\\cd: could not change directory to "{folder}": {error.strerror}')
        return False
    return True


@command("s")
def history(c: BackslashCommand) -> bool:
    shell = c.shell
    name = c.word(semicolon=True)
    person = c.loop.person if c.loop is not None else None
    lines = person.history(for_file=name is not None) if person is not None else None
    if lines is None:
        # without line editing there is no history, as in psql
        if name is None:
            shell.say("")
        return False
    text = "".join(line + "\n" for line in lines)
    if name is None:
        pager = streams.pager(streams.MANY_LINES, shell.options.pager, shell.options.pager_min_lines)
        (pager or shell.stdout).write(text)
        if pager is not None:
            pager.close()
        shell.say("")
        return True
    name = expand_tilde(name)
    try:
        with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        shell.error(f'could not save history to file "{name}": {error.strerror}')
        return False
    if not shell.quiet:
        shell.say(f'Wrote history to file "{name}".')
    return True
