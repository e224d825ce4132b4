r"""`\h` and `\?`."""

from __future__ import annotations

import re

from pgrepl.shell.backslash.helping import topics
from tests.shell.conftest import Run
from tests.shell.make_sql_help import COMMANDS

DROP_PUBLICATION = """Command:     DROP PUBLICATION
Description: remove a publication
Syntax:
DROP PUBLICATION [ IF EXISTS ] name [, ...] [ CASCADE | RESTRICT ]

URL: https://www.postgresql.org/docs/17/sql-droppublication.html

"""
NOTHING = 'No help available for "{}".\nTry \\h with no arguments to see available help.\n'


def test_the_commands_with_help_are_those_that_pgrepl_has() -> None:
    names = [topic.command for topic in topics()]
    assert names == sorted(" ".join(name.split()) for name in COMMANDS.split(","))


def test_a_command_is_found_by_its_name_or_first_words(pgrepl: Run) -> None:
    for words in ("drop publication", "DROP PUBLICATION;", "drop pub", "Drop Publication p cascade"):
        assert pgrepl("-c", f"\\h {words}").stdout.decode() == DROP_PUBLICATION


def test_several_commands_are_shown_when_several_fit(pgrepl: Run) -> None:
    printed = pgrepl("-c", "\\h alter s").stdout.decode()
    assert re.findall("Command:     (.*)", printed) == [
        "ALTER SCHEMA",
        "ALTER SEQUENCE",
        "ALTER SERVER",
        "ALTER SUBSCRIPTION",
        "ALTER SYSTEM",
    ]
    assert re.findall("Command:     (.*)", pgrepl("-c", "\\h set").stdout.decode()) == ["SET"]


def test_what_pgrepl_does_not_have_has_no_help(pgrepl: Run) -> None:
    assert pgrepl("-c", "\\h load").stdout.decode() == NOTHING.format("load")
    assert pgrepl("-c", "\\h zzz x").stdout.decode() == NOTHING.format("zzz x")


def test_the_list_stands_in_columns(pgrepl: Run) -> None:
    lines = pgrepl("-c", "\\h").stdout.decode().split("\n")
    assert lines[0] == "Available help:"
    assert re.fullmatch(r"  ABORT +[A-Z ]+", lines[1])
    listed = [word.strip() for line in lines[1:] for word in (line[2:28], line[28:]) if word.strip()]
    assert sorted(listed) == [topic.command for topic in topics()]


def test_the_page_of_commands_says_how_things_are(pgrepl: Run) -> None:
    printed = pgrepl("-c", "\\x", "-c", "\\? commands").stdout.decode()
    assert "  \\x [on|off|auto]       toggle expanded output (currently on)\n" in printed
    assert '                         connect to new database (currently "postgres")\n' in printed


def test_every_command_on_the_page_is_there(pgrepl: Run) -> None:
    page = pgrepl("-c", "\\?").stdout.decode()
    commands = re.findall(r"^  \\([!?\w]+)", page, re.MULTILINE)
    assert len(commands) > 60
    script = "\\if false\n" + "".join(f"\\{name}\n" for name in commands if name not in ("if", "elif", "else", "endif"))
    assert pgrepl(script=script + "\\endif\n").stdout.decode() == ""


def test_the_page_names_what_psql_names(pgrepl: Run) -> None:
    """Commands that work, if they are of rare things, too."""
    page = pgrepl("-c", "\\?").stdout.decode()
    for name in (
        r"\copy ...",
        r"\ef [FUNCNAME [LINE]]",
        r"\da[S]  [PATTERN]",
        r"\dT[S+] [PATTERN]",
        r"\sf[+]  FUNCNAME",
    ):
        assert f"\n  {name}" in page
