"""The commands of replication connections as text (repl_scanner.l, repl_gram.y).

CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'use')
START_REPLICATION SLOT "s" LOGICAL 0/1A (proto_version '4', publication_names '"p"')
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import OnNotice, fold, truncate
from pgrepl.sql.nodes import DefElem

COMMANDS = frozenset(
    {
        "ALTER_REPLICATION_SLOT", "BASE_BACKUP", "CREATE_REPLICATION_SLOT", "DROP_REPLICATION_SLOT", "IDENTIFY_SYSTEM",
        "READ_REPLICATION_SLOT", "SHOW", "START_REPLICATION", "TIMELINE_HISTORY", "UPLOAD_MANIFEST",
    }
)  # fmt: skip
# words in capitals that are no names
_KEYWORDS = COMMANDS | {
    "EXPORT_SNAPSHOT", "LOGICAL", "NOEXPORT_SNAPSHOT", "PHYSICAL", "RESERVE_WAL", "SLOT", "TEMPORARY", "TIMELINE",
    "TWO_PHASE", "USE_SNAPSHOT", "WAIT",
}  # fmt: skip
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<lsn>[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8})
    | (?P<number>\d+(?!\w))
    | (?P<word>[A-Za-z_\x80-\uffff][\w$]*)
    | "(?P<quoted>(?:[^"]|"")*)"
    | '(?P<text>(?:[^']|'')*)'
    | (?P<mark>[(),;.])
    | (?P<end>\Z)
    | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_LEGACY = {
    "EXPORT_SNAPSHOT": ("snapshot", "export"),
    "NOEXPORT_SNAPSHOT": ("snapshot", "nothing"),
    "USE_SNAPSHOT": ("snapshot", "use"),
    "RESERVE_WAL": ("reserve_wal", None),
    "TWO_PHASE": ("two_phase", None),
}


@dataclass
class Command:
    """A command, in the places that its grammar has."""

    name: str
    slot: str = ""
    temporary: bool = False
    kind: str = ""  # LOGICAL or PHYSICAL
    plugin: str = ""
    lsn: int = 0
    wait: bool = False
    setting: str = ""
    options: list[DefElem] = field(default_factory=list)


def is_command(text: str) -> bool:
    """Whether a query begins as a replication command does; if not, it is SQL."""
    match = _TOKEN.match(text)
    return match is not None and match["word"] in COMMANDS


def parse(text: str, on_notice: OnNotice) -> Command:
    return _Parser(text, on_notice).command()


class _Parser:
    def __init__(self, text: str, on_notice: OnNotice) -> None:
        self._text = text
        self._on_notice = on_notice
        self._at = 0
        self._advance()

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        self._kind = str(match.lastgroup)
        self._value = match[self._kind]

    def _take(self, kind: str) -> str:
        if self._kind != kind:
            raise _wrong()
        value = self._value
        self._advance()
        return value

    def _keyword(self, *words: str) -> str:
        if self._kind == "word" and self._value in words:
            return self._take("word")
        return ""

    def _expect(self, *words: str) -> str:
        word = self._keyword(*words)
        if not word:
            raise _wrong()
        return word

    def _mark(self, mark: str) -> bool:
        if self._kind == "mark" and self._value == mark:
            self._advance()
            return True
        return False

    def _name(self) -> str:
        if self._kind == "quoted":
            name = self._take("quoted").replace('""', '"')
        elif self._value in _KEYWORDS:
            raise _wrong()
        else:
            name = fold(self._take("word"))
        return truncate(name, self._on_notice)

    def _text_value(self) -> str:
        return self._take("text").replace("''", "'")

    def command(self) -> Command:
        command = Command(self._take("word"))
        match command.name:
            case "IDENTIFY_SYSTEM":
                pass
            case "SHOW":
                command.setting = self._name()
                while self._mark("."):
                    command.setting += "." + self._name()
            case "CREATE_REPLICATION_SLOT":
                command.slot = self._name()
                command.temporary = bool(self._keyword("TEMPORARY"))
                command.kind = self._expect("LOGICAL", "PHYSICAL")
                if command.kind == "LOGICAL":
                    command.plugin = self._name()
                command.options = self._options() or self._legacy_options()
            case "ALTER_REPLICATION_SLOT":
                command.slot = self._name()
                command.options = self._options()
                if not command.options:
                    raise _wrong()
            case "DROP_REPLICATION_SLOT":
                command.slot = self._name()
                command.wait = bool(self._keyword("WAIT"))
            case "READ_REPLICATION_SLOT":
                command.slot = self._name()
            case "START_REPLICATION":
                self._start(command)
            case "TIMELINE_HISTORY":
                self._timeline()
            case "BASE_BACKUP":
                command.options = self._options()
        self._mark(";")
        if self._kind != "end":
            raise _wrong()
        return command

    def _timeline(self) -> None:
        if int(self._take("number")) == 0:
            raise PgError("42601", "invalid timeline 0")

    def _start(self, command: Command) -> None:
        if self._keyword("SLOT"):
            command.slot = self._name()
        command.kind = self._keyword("LOGICAL", "PHYSICAL") or "PHYSICAL"
        high, low = self._take("lsn").split("/")
        command.lsn = int(high, 16) << 32 | int(low, 16)
        if command.kind == "LOGICAL":
            command.options = self._options(of_plugin=True)
        elif self._keyword("TIMELINE"):
            self._timeline()

    def _options(self, *, of_plugin: bool = False) -> list[DefElem]:
        """`of_plugin`: their values are strings."""
        options: list[DefElem] = []
        if not self._mark("("):
            return options
        while True:
            if self._kind == "word" and self._value in _KEYWORDS and not of_plugin:
                name = self._take("word").lower()
            else:
                name = self._name()
            value: str | int | None = None
            if self._kind == "text":
                value = self._text_value()
            elif self._kind == "number" and not of_plugin:
                value = int(self._take("number"))
            elif self._kind in ("word", "quoted") and not of_plugin:
                value = self._name()
            options.append(DefElem(name, value))
            if self._mark(")"):
                return options
            if not self._mark(","):
                raise _wrong()

    def _legacy_options(self) -> list[DefElem]:
        options: list[DefElem] = []
        while word := self._keyword(*_LEGACY):
            options.append(DefElem(*_LEGACY[word]))
        return options


def _wrong() -> PgError:
    return PgError("42601", "syntax error")
