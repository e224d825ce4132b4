"""What helps a subscription that an error has stopped: the one table of it, for `status`, the log and the prompt.

A rule is found by the SQLSTATE, the message, and by what failed: the copy of a table, or the main stream. Each rule
names a cure that loses nothing which only the publisher has; skipping a transaction loses changes, and comes last.

    23505, copy of public.t   "Table public.t has rows of its own …"    TRUNCATE public.t;
    55000, … missing replicated column: "c"                             ALTER SUBSCRIPTION s SET (schema_changes = …);
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import quote_identifier, quote_literal

SKIP_LOSES = "Or skip the transaction: all of its changes, to all tables, are then missing here."
_UNKNOWN = "the table"
_AWAY = re.compile(
    r"terminating connection|the database system is (starting up|shutting down|not yet accepting|in recovery)|"
    r"Connection (refused|reset|timed out)|server closed the connection|could not receive data from server|"
    r"timeout expired|no connection to the server|No route to host|is unreachable|could not translate host name"
)


@frozen
class Failure:
    """An error of a subscription's worker. `table`: the quoted name of the one whose copy failed."""

    subscription: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None
    context: str | None = None
    table: str | None = None
    follows: str = "n"  # what of the publisher's definitions it follows (subschemachanges)
    has_two_phase: bool = False
    reads_files: bool = False

    @property
    def waits(self) -> bool:
        """Is only the publisher away, so that nothing is to be done but to wait?"""
        return self.sqlstate.startswith(("08", "57P")) and _AWAY.search(self.message) is not None


@frozen
class Advice:
    """The way to go on: words, and the statements that do it."""

    text: str
    statements: tuple[str, ...] = ()


Facts = Mapping[str, str]
_Statements = Callable[[Failure, Facts], "tuple[str, ...]"]


@frozen
class _Rule:
    """Advice for errors of these SQLSTATEs (the beginning will do) whose message or context is like the pattern. Words
    may name the parts that the pattern finds. `copies`: only of copies (True), only of the stream (False). `files`:
    only of files of changes."""

    sqlstates: tuple[str, ...]
    pattern: str
    words: str
    statements: _Statements = lambda failure, facts: ()
    copies: bool | None = None
    files: bool = False

    def fits(self, failure: Failure) -> bool:
        is_copy = failure.table is not None
        return (
            failure.sqlstate.startswith(self.sqlstates)
            and self.copies in (None, is_copy)
            and (failure.reads_files or not self.files)
        )


def advice(failure: Failure) -> Advice:
    """The advice for a failure."""
    for rule in _RULES:
        match = re.search(rule.pattern, f"{failure.message}\n{failure.hint}\n{failure.context}", re.DOTALL)
        if match is not None and rule.fits(failure):
            facts = _facts(failure, match)
            return Advice(rule.words.format_map(facts), rule.statements(failure, facts))
    if failure.table is not None:
        return Advice(f"Remove what is in the way of table {failure.table}; it is copied again.")
    return Advice("Remove the cause; it is tried again.")


def _facts(failure: Failure, match: re.Match[str]) -> dict[str, str]:
    """The parts of the messages, as SQL has them: `name` of the subscription, `table` that the error is about."""
    parts = {key: value for key, value in match.groupdict().items() if value is not None}
    facts = {key: value if key == "domain" else quote_identifier(value) for key, value in parts.items()}
    target = re.search(
        r'target relation "(?P<schema>[^."]+)\.(?P<table>[^"]+)"', f"{failure.context}\n{failure.message}"
    )
    if target is not None:
        facts["table"] = f"{quote_identifier(target['schema'])}.{quote_identifier(target['table'])}"
    if failure.table is not None:
        facts["table"] = failure.table
    facts.setdefault("table", _UNKNOWN)
    column = re.search(r'(?:, |, line \d+, )column "?(?P<column>[^",:]+)"?', failure.context or "")
    facts.setdefault("column", "the column" if column is None else f"column {quote_identifier(column['column'])}")
    return {"name": quote_identifier(failure.subscription), "setting": "limit", **facts}


# --- statements -------------------------------------------------------------------------------------------------------


def _say(statement: str) -> _Statements:
    """The statement with the names of what it is about, if the error names all of that."""

    def said(_failure: Failure, facts: Facts) -> tuple[str, ...]:
        return () if "{table}" in statement and facts["table"] == _UNKNOWN else (statement.format_map(facts),)

    return said


def _follow_columns(failure: Failure, facts: Facts) -> tuple[str, ...]:
    if failure.follows != "n":
        return ()
    return (f"ALTER SUBSCRIPTION {facts['name']} SET (schema_changes = columns);",)


def _follow_tables(failure: Failure, facts: Facts) -> tuple[str, ...]:
    if failure.follows in "ta" or failure.has_two_phase:
        return ()
    return (f"ALTER SUBSCRIPTION {facts['name']} SET (schema_changes = tables);",)


_OF_18 = re.compile(
    r"Key already exists in unique index [^\n]*\nKey \((.*?)\)=\((.*?)\); existing local row ", re.DOTALL
)


def _delete_row(failure: Failure, facts: Facts) -> tuple[str, ...]:
    """DELETE of the row with the key that DETAIL names, if its columns and values can be told apart."""
    detail = failure.detail or ""
    match = re.match(r"Key \((.*)\)=\((.*)\) already exists\.\Z", detail, re.DOTALL) or _OF_18.match(detail)
    if match is None or facts["table"] == _UNKNOWN:
        return ()
    columns, values = match[1].split(", "), match[2].split(", ")
    if len(columns) != len(values) or "null" in values:
        return ()
    where = " AND ".join([f"{column} = {quote_literal(value)}" for column, value in zip(columns, values, strict=True)])
    return (f"DELETE FROM {facts['table']} WHERE {where};",)


_REPAIR = "let pgrepl repair {name} make a new slot, and bring the tables to it."
_ANEW = "drop the subscription, empty its tables and create it again, so that they are copied anew."
_RULES = (
    # definitions that differ
    _Rule(
        ("55000",), r"is missing replicated columns?: ",
        "Let the publisher's new columns be made here as they come, or make them with ALTER TABLE {table} ADD COLUMN.",
        _follow_columns,
    ),
    _Rule(
        ("55000",), r'has incompatible generated columns?: "(?P<generated>[^"]+)"',
        "The publisher sends what is generated here. Make it an ordinary column.",
        _say("ALTER TABLE {table} ALTER COLUMN {generated} DROP EXPRESSION;"),
    ),
    _Rule(
        ("55000",), r'target relation "[^"]+" does not exist',
        "Let the publisher's new tables be made here as they come; or make this one with CREATE TABLE, then ALTER "
        "SUBSCRIPTION {name} REFRESH PUBLICATION.",
        _follow_tables,
    ),
    _Rule(
        ("55000",), r"REPLICA IDENTITY|replica identity",
        "Give {table} here a primary key or a replica identity index of columns whose old values the publisher sends.",
    ),
    # rows that do not fit
    _Rule(
        ("23505",), r".",
        "Table {table} had rows before it was copied. Empty it, and the publisher's rows come. To keep its rows, "
        "drop the subscription and create it WITH (copy_data = false).",
        _say("TRUNCATE {table};"), copies=True,
    ),
    _Rule(
        ("23505", "23P01"), r".",
        "A row of {table} with this key was written here. Delete or change it, and the publisher's row comes.",
        _delete_row, copies=False,
    ),
    _Rule(
        ("23502",), r'null value in column "(?P<nulls>[^"]+)" of relation',
        "The publisher has NULL there. Allow it here, too.",
        _say("ALTER TABLE {table} ALTER COLUMN {nulls} DROP NOT NULL;"),
    ),
    _Rule(
        ("23514",), r'value for domain (?P<domain>[^" ]+) violates check constraint "(?P<constraint>[^"]+)"',
        "The publisher has values that the domain here does not allow. Drop or change its constraint.",
        _say("ALTER DOMAIN {domain} DROP CONSTRAINT {constraint};"),
    ),
    _Rule(
        ("23514",), r'violates check constraint "(?P<constraint>[^"]+)"',
        "The publisher has rows that the constraint here does not allow. Drop or change it.",
        _say("ALTER TABLE {table} DROP CONSTRAINT {constraint};"),
    ),
    _Rule(
        ("23514",), r"no partition of relation|violates partition constraint",
        "Make a partition for the row: CREATE TABLE … PARTITION OF {table} FOR VALUES ….",
    ),
    _Rule(
        ("08P01", "08006", "22", "42", "58", "0A000"), r"\A(?!.*target relation)",
        "Correct the file. With on_error=FILE in the connection string, records that cannot be read are written there, "
        "and the others are applied.",
        files=True,
    ),
    _Rule(
        ("22", "42804"), r"\A(?!.*could not (receive|start))",
        "A value of the publisher does not fit {column} of {table} here. Give it the publisher's type: ALTER TABLE "
        "{table} ALTER COLUMN … TYPE ….",
    ),
    _Rule(
        ("0A000",), r"foreign key",
        "The publisher has emptied a table to which one here refers. Drop the foreign key, or publish both tables.",
    ),
    _Rule(
        ("0A000",), r"row-level security",
        "Let the subscription's owner pass row security: ALTER ROLE … BYPASSRLS, or ALTER TABLE {table} DISABLE ROW "
        "LEVEL SECURITY.",
    ),
    # rights
    _Rule(
        ("",), r"could not start initial contents copy.*permission denied",
        "At the publisher, GRANT SELECT on the table, and USAGE on its schema, to the role that the connection names.",
    ),
    _Rule(
        ("42501",), r'role "(?P<who>[^"]+)" cannot SET ROLE to "(?P<whom>[^"]+)"',
        "The subscription's owner has to act as the table's owner. Let it, or SET (run_as_owner = true).",
        _say("GRANT {whom} TO {who};"),
    ),
    _Rule(
        ("42501", "2F003", "28"), r".",
        "Grant the subscription's owner what the message names, or make a role that has it the owner.",
    ),
    # the publisher
    _Rule(
        ("08P01",), r"can no longer .* replication slot .*(max_slot_wal_keep_size|maximum reserved size|wal_removed)",
        f"Set a higher max_slot_wal_keep_size at the publisher, or let workers run; then {_REPAIR}",
    ),
    _Rule(
        ("08P01",), r"can no longer .* replication slot .*(idle_replication_slot_timeout|idle_timeout)",
        "Set a longer idle_replication_slot_timeout at the publisher, or let pgrepl apply --follow or pgrepl serve "
        f"run; then {_REPAIR}",
    ),
    _Rule(
        ("08P01",), r"can no longer .* replication slot .*(wal_level|wal_level_insufficient)",
        f"Set wal_level = logical at the primary again; then {_REPAIR}",
    ),
    _Rule(
        ("08P01",), r"can no longer .* replication slot .*(rows of system catalogs|rows_removed)",
        f"Set hot_standby_feedback at the standby, or subscribe to its primary; then {_REPAIR}",
    ),
    _Rule(
        ("08P01", "42704"),
        r"can no longer (get changes from|access) replication slot|replication slot \S+ does not exist",
        f"What the slot kept is gone: {_REPAIR}",
    ),
    _Rule(
        ("08P01", "55006"), r"is active for PID", "Another worker reads from the slot. It is tried again.",
    ),
    _Rule(
        ("08P01",), r'publication "[^"]+" does not exist',
        "Changes from before the publication was made cannot be sent. Publish under the name that there was then, or "
        f"{_ANEW}",
    ),
    _Rule(
        ("08P01", "55000"), r"cannot use different column lists",
        "At the publisher, give the table the same columns in all publications of the subscription.",
    ),
    _Rule(
        ("08", "57P"), r"could not connect|could not receive data from WAL stream: (?!ERROR)|terminating connection",
        "It is tried again until the publisher answers. If that has moved, or wants another user or password: ALTER "
        "SUBSCRIPTION {name} CONNECTION '…'.",
    ),
    # means
    _Rule(
        ("53400", "53300"), r'\A(?:.*"(?P<setting>max_\w+)")?',
        "Set a higher {setting} with ALTER SYSTEM SET; it is tried again.",
    ),
    _Rule(("53100", "53200"), r".", "Make room; it is tried again."),
    _Rule(("58000",), r"Spark", "See that Spark runs, or set pgrepl.engine = local for the subscription's database."),
)  # fmt: skip
