"""`pgrepl plan` and `pgrepl diff`: the statements that bring a database to what a file, or another one, says."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pgrepl.catalog.facts.subscription import conninfo_of, subscriptions
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.replication.conninfo import ConnectionFailure, check_conninfo, endpoints
from pgrepl.replication.publisher.postgres.link import link_to
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.shell.backslash.command import BackslashCommand
from pgrepl.shell.commands.check import CheckingShell, can_read, rehearsal
from pgrepl.shell.commands.findings import as_text
from pgrepl.shell.commands.subcommand import BAD_CONNECTION, FAILURE, OK, connecting, connection
from pgrepl.shell.connection import (
    CATALOG_FILE,
    DEFAULT_USER,
    ConnectFailure,
    ConnectTarget,
    from_conninfo,
    is_conninfo,
)
from pgrepl.sql.keywords import quote_qualified
from pgrepl.statements.definitions.changes import KINDS, changes, definitions, leave_out, what_matters
from pgrepl.statements.definitions.declared import Declaring, Naming, in_some_order, seed
from pgrepl.statements.run import run as run_statements

if TYPE_CHECKING:
    from pgrepl.replication.publisher.postgres.types import ServerStatement
    from pgrepl.shell.connection import Connection
    from pgrepl.statements.definitions.changes import Changes, Definitions


_DIFFERENT, _NOT_COMPARED = 1, BAD_CONNECTION


# --- plan -------------------------------------------------------------------------------------------------------------


@click.command("plan", short_help="statements that bring a database to what a file declares")
@click.argument("file")
@click.option("--drop", "drops", is_flag=True, help="drop what the file does not declare, of the kinds it declares")
@click.option("--apply", "applied", is_flag=True, help="run the statements instead of printing them")
@connecting
def plan_command(file: str, drops: bool, applied: bool, catalog: str, dbname: str, username: str) -> int:
    """Print the statements that bring a database to what FILE (-: standard input) declares with CREATE, ALTER, COMMENT
    and GRANT: publications with their filters and column lists, subscriptions, tables, views, triggers, types,
    functions, procedures, sequences, schemas, roles, default privileges. What the file does not name stays as it is.

    Nothing is dropped without --drop: columns, constraints, indexes and memberships that the file does not have, and
    objects of the kinds that it declares. When the statements have been run, a second plan is empty. A password is set
    where a role has none.

    Exits with 0; with 1 if the file has errors, or something cannot be altered to what it says; with 2 if the file or
    the catalog cannot be read.

    \b
    pgrepl plan shop.sql -d shop
    pgrepl plan shop.sql -d shop | pgrepl -d shop -f -
    pgrepl plan shop.sql -d shop --drop --apply
    """
    with _script(file) as script, connection(catalog, dbname, username) as opened:
        if script is None:
            return _NOT_COMPARED
        with reading(opened.session):
            have = definitions(opened.session)
        wanted = _declared(file, script, have, opened, drops)
        if wanted is None:
            return FAILURE
        kinds = {kind for kind, _ in wanted}
        kinds |= {"user mapping"} if "server" in kinds else set()  # a server cannot be dropped without
        compared = {key: definition for key, definition in have.items() if key in wanted or (drops and key[0] in kinds)}
        plan = changes(compared, wanted, drops=drops, there=have)
        if plan.left:
            what = "difference is" if plan.left == 1 else "differences are"
            sys.stderr.write(f"pgrepl: {plan.left} {what} left, where something would be dropped: see --drop\n")
        if applied:
            _apply(opened, plan)
        else:
            sys.stdout.write("".join(f"{statement}\n" for statement in plan.statements))
    return OK


@contextmanager
def _script(name: str) -> Iterator[str | None]:
    """The file, which is read twice, or one with what standard input gave; None, after a message: it cannot be read."""
    if name != "-":
        yield name if can_read(name) else None
        return
    with tempfile.NamedTemporaryFile(prefix="pgrepl-plan-", suffix=".sql") as copy:
        copy.write(sys.stdin.buffer.read())
        copy.flush()
        yield copy.name


def _declared(name: str, script: str, have: Definitions, opened: Connection, drops: bool) -> Definitions | None:
    """The definitions that the script makes or changes; None, after messages: it has errors."""
    naming, declaring = Naming(), Declaring()
    with rehearsal(None, opened.database, DEFAULT_USER) as target:
        shell = CheckingShell()
        shell.rehearsal = naming
        shell.read(script, target)
    with rehearsal(None, opened.database, DEFAULT_USER) as target:
        with _quiet(target) as here:
            seed(here.session, have, naming.named, {kind for kind, _ in naming.named} if drops else ())
            with reading(here.session):
                before = definitions(here.session)
        shell = CheckingShell()
        shell.rehearsal = declaring
        shell.own_commands["c"] = shell.own_commands["connect"] = _refuse_to_connect
        shell.read(script, replace(target, user=opened.user))
        wrong = [finding for finding in shell.findings if finding.is_error]
        if wrong:
            named = [
                replace(finding, file="<stdin>") if finding.file == script != name else finding for finding in wrong
            ]
            sys.stderr.write(as_text([name], named))
            return None
        with connection(target.catalog, target.database, DEFAULT_USER) as here, reading(here.session):
            after = definitions(here.session, typed=declaring.subscriptions)
    return {key: definition for key, definition in after.items() if key not in before or before[key] != definition}


def _refuse_to_connect(command: object) -> bool:
    assert isinstance(command, BackslashCommand)
    command.words(semicolon=True)
    command.shell.error("\\connect cannot be part of a plan")
    return True


def _apply(opened: Connection, plan: Changes) -> None:
    """Run the statements: all in one transaction, but new labels, which must be committed before they are used, and
    those that may speak with publishers, which come last."""
    labels = [text for text in plan.statements if text.startswith("ALTER TYPE ") and " ADD VALUE " in text]
    apart = [text for text in plan.statements if "SUBSCRIPTION" in text.split(None, 2)[1]]
    together = [text for text in plan.statements if text not in apart and text not in labels]
    batches = [*labels, *(["BEGIN;\n" + "\n".join(together) + "\nCOMMIT;"] if together else []), *apart]
    for batch in batches:
        done = list(run_statements(opened.session, batch))
        sys.stdout.write("".join(f"{result.tag}\n" for result in done if result.tag not in ("BEGIN", "COMMIT")))


# --- diff -------------------------------------------------------------------------------------------------------------


@click.command("diff", short_help="how the definitions of two databases differ")
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@click.option("--all", "everything", is_flag=True, help="of a subscriber and its server all, not what matters")
@connecting
def diff_command(one: str, other: str, everything: bool, catalog: str, dbname: str, username: str) -> int:
    """Print the statements that bring the definitions of A to those of B, nothing if they are the same.

    A and B are each a database of the catalog, a catalog file or its folder (then the database is that of -d), or a
    connection string: 'host=/folder dbname=shop', or a PostgreSQL server. Of two catalogs roles are compared, too; of
    a server neither owners nor privileges, comments, foreign servers or subscriptions. Nothing is changed.

    If A has a subscription to the server B, only what matters to it is compared, unless --all is given: the published
    tables and columns with their types, a key, and that every row can be taken.

    Exits with 0 if they are the same, with 1 if they differ, with 2 if one of them cannot be read.

    \b
    pgrepl diff shop shop_new
    pgrepl diff catalog.db /backup/catalog.db -d shop
    pgrepl diff shop 'postgresql://repl@db.example.com/shop'
    """
    sides = [_Side(text, catalog, dbname, username) for text in (one, other)]
    kinds = set(KINDS)
    without: tuple[str, ...] = ()
    if sides[0].catalog == sides[1].catalog:
        kinds.discard("role")
    if any(side.catalog is None for side in sides):
        kinds -= {"role", "server", "user mapping", "subscription", "default privileges"}
        without = ("owner", "privileges", "comment")
    have, wanted = (side.definitions(kinds) for side in sides)
    for side in sides:
        leave_out(side.unread, have, wanted)
    published = {} if everything else _published(sides[0], sides[1])
    if published:
        have, wanted = what_matters(have, wanted, published)
    plan = changes(have, wanted, drops=True, without=without)
    sys.stdout.write("".join(f"{statement}\n" for statement in plan.statements))
    return _DIFFERENT if plan.statements else OK


class _Side:
    """One of the two: a database of a catalog, or (`catalog` is None) a server's."""

    def __init__(self, text: str, catalog: str, database: str, user: str) -> None:
        self.user = user
        self.catalog: str | None = os.path.abspath(catalog) if "://" not in catalog else catalog
        self.database = database
        self.conninfo = text
        self.unread: list[ServerStatement] = []  # a server's, that cannot be run here
        if is_conninfo(text):
            if _is_server(text):
                self.catalog = None
                return
            own = ConnectTarget(catalog, database, user)
            target = from_conninfo(own, own, text)
            self.catalog, self.database, self.user = os.path.abspath(target.catalog), target.database, target.user
        elif os.path.isdir(text):
            self.catalog = os.path.abspath(os.path.join(text, CATALOG_FILE))
        elif "://" in text or os.path.isfile(text) or os.sep in text:
            self.catalog = text if "://" in text else os.path.abspath(text)
        else:
            self.database = text

    def definitions(self, kinds: set[str]) -> Definitions:
        if self.catalog is None:
            defined, self.unread = _of_server(self.conninfo, kinds)
            return defined
        try:
            with connection(self.catalog, self.database, self.user) as opened, reading(opened.session):
                return definitions(opened.session, kinds)
        except ConnectFailure as failure:
            if self.database != self.conninfo or os.path.exists(self.conninfo):
                raise
            raise ConnectFailure(f'{failure}\nDETAIL:  There is no file "{self.conninfo}" either.') from None


def _is_server(conninfo: str) -> bool:
    """Has the string a host that is no folder with a catalog?"""
    options = check_conninfo(conninfo, False)
    if "service" in options:
        return True
    first = endpoints(options)[0]
    if first.is_folder:
        return os.path.exists(os.path.join(first.host, f".s.PGSQL.{first.port}"))
    return not first.is_local or bool(options.get("port"))


def _of_server(conninfo: str, kinds: set[str]) -> tuple[Definitions, list[ServerStatement]]:
    """The definitions of a server's database, made in an empty catalog, and the statements that cannot be run here:
    what they make is not compared."""
    from pgrepl.replication.publisher.postgres.schema import definition_statements

    try:
        link = link_to(check_conninfo(conninfo, False))
    except ConnectionFailure as failure:
        raise ConnectFailure(str(failure)) from None
    try:
        statements = list(definition_statements(link))
    except PublisherError as error:
        raise PgError(error.sqlstate, f"could not read the server's catalog: {error}") from None
    finally:
        link.close()
    with rehearsal(None, "postgres", DEFAULT_USER) as target, _quiet(target) as here:
        failed = in_some_order(statements, lambda statement: list(run_statements(here.session, statement.text)))
        lost = {statement.of for statement, _ in failed if not statement.part}
        for statement, problem in failed:
            if not statement.part or statement.of not in lost:
                sys.stderr.write(f"pgrepl: warning: not compared: {statement.what}: {problem.message}\n")
        with reading(here.session):
            return definitions(here.session, kinds), [statement for statement, _ in failed]


def _published(subscriber: _Side, server: _Side) -> dict[str, set[str]]:
    """The tables and columns that a server publishes to subscriptions of a database; none: there is no subscription."""
    if subscriber.catalog is None or server.catalog is not None:
        return {}
    from pgrepl.replication.publisher.postgres.published import published_rows, published_tables

    wanted = check_conninfo(server.conninfo, False)
    with connection(subscriber.catalog, subscriber.database, subscriber.user) as opened, reading(opened.session):
        names: set[str] = set()
        for row in subscriptions(opened.session):
            with suppress(PgError):  # without a user mapping it subscribes to nobody's
                if _same_place(check_conninfo(conninfo_of(opened.session, row), False), wanted):
                    names.update(map(str, row.subpublications))
    tables: dict[str, set[str]] = {}
    if names:
        try:
            link = link_to(wanted)
        except ConnectionFailure as failure:
            raise ConnectFailure(str(failure)) from None
        try:
            for table in published_tables(link, sorted(names)):
                rows = published_rows(link, table.schema, table.name, sorted(names))
                columns = tables.setdefault(quote_qualified(table.schema, table.name), set())
                columns.update(column.name for column in rows.columns)
        except PublisherError as error:
            raise PgError(error.sqlstate, f"could not read the server's publications: {error}") from None
        finally:
            link.close()
    return tables


def _same_place(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two connection strings name one database."""
    return all(
        one.get(word, default) == other.get(word, default)
        for word, default in (("host", ""), ("hostaddr", ""), ("port", "5432"), ("dbname", ""), ("service", ""))
    )


@contextmanager
def _quiet(target: ConnectTarget) -> Iterator[Connection]:
    """A connection to a rehearsal, whose notices nobody wants."""
    with connection(target.catalog, target.database, DEFAULT_USER) as here:
        here.catalog.is_rehearsal = True
        here.session.on_report = lambda report: None
        yield here
