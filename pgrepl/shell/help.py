r"""The pages of `\?` and `--help`: backslash commands, command-line options, variables."""

from __future__ import annotations

from pathlib import Path

from pgrepl.shell import streams
from pgrepl.shell.shell import Shell

_PAGES = Path(__file__).parent / "data"


def _read(name: str) -> str:
    return (_PAGES / f"{name}.txt").read_text(encoding="utf-8")


def page(shell: Shell, text: str) -> None:
    """Print a text, through the pager if it is long."""
    pager = streams.pager(text.count("\n"), shell.options.pager, shell.options.pager_min_lines)
    (pager or shell.stdout).write(text)
    if pager is not None:
        pager.close()


def show_commands(shell: Shell) -> None:
    options, connection = shell.options, shell.connection
    database = "no connection" if connection is None else f'"{connection.database}"'
    page(
        shell,
        _read("commands").format(
            html=_on(options.format == "html"),
            tuples_only=_on(options.tuples_only),
            expanded=options.expanded,
            database=database,
            timing=_on(shell.timing),
        ),
    )


def show_options(shell: Shell) -> None:
    page(shell, _read("options"))


def show_copyright(shell: Shell) -> None:
    shell.stdout.write(_read("copyright"))


def show_variables(shell: Shell) -> None:
    page(shell, _read("variables"))


def _on(value: bool) -> str:
    return "on" if value else "off"
