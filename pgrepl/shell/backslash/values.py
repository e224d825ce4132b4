r"""`\set \unset \getenv \setenv \prompt \timing`: variables and the environment."""

from __future__ import annotations

import os

from pgrepl.shell import interrupt
from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.input import standard_input
from pgrepl.shell.variables import parse_bool


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
        with interrupt.stops_waiting():
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
