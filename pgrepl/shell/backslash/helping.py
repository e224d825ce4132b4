r"""`\? \h \copyright \errverbose \q`."""

from __future__ import annotations

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.outcome import Outcome
from pgrepl.shell.report import message_text
from pgrepl.shell.slash_lexer import Argument


@command("?")
def slash_help(c: BackslashCommand) -> bool:
    from pgrepl.shell.help import show_commands, show_options, show_variables

    topic = c.word()
    {"options": show_options, "variables": show_variables}.get(topic or "", show_commands)(c.shell)
    return True


@command("h", "help", rest=Argument.WHOLE_LINE)
def sql_help(c: BackslashCommand) -> bool:
    from pgrepl.shell.sql_help import show_sql_help

    show_sql_help(c.shell, c.word(Argument.WHOLE_LINE, semicolon=True))
    return True


@command("copyright")
def copyright_notice(c: BackslashCommand) -> bool:
    from pgrepl.shell.help import show_copyright

    show_copyright(c.shell)
    return True


@command("errverbose")
def verbose_error(c: BackslashCommand) -> bool:
    if c.shell.last_error is None:
        c.shell.say("There is no previous error.")
    else:
        report, query = c.shell.last_error
        c.shell.error(message_text(report, query, "verbose", "always"))
    return True


@command("q", "quit")
def leave(c: BackslashCommand) -> Outcome:
    return Outcome.QUIT
