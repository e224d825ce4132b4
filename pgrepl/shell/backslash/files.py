r"""`\i \ir \o \echo \qecho \warn \! \cd \s`: files, streams and the operating system."""

from __future__ import annotations

import os
import subprocess

from pgrepl.shell import streams
from pgrepl.shell.backslash.command import BackslashCommand, command, expand_tilde
from pgrepl.shell.shell import SUCCESS
from pgrepl.shell.slash_lexer import Argument


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
