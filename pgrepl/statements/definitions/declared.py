"""The declarations of a file: its statements are run in a rehearsal, in which what it does not name is there
already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.sql.nodes import (
    AlterDefaultPrivilegesStmt,
    CompositeTypeStmt,
    CreateDatabaseStmt,
    CreateDomainStmt,
    CreateEnumStmt,
    CreateForeignServerStmt,
    CreateFunctionStmt,
    CreatePublicationStmt,
    CreateRangeStmt,
    CreateRoleStmt,
    CreateSchemaStmt,
    CreateSeqStmt,
    CreateStmt,
    CreateSubscriptionStmt,
    CreateTableAsStmt,
    CreateUserMappingStmt,
    DefineStmt,
    ObjectType,
    RangeVar,
    Statement,
    ViewStmt,
)
from pgrepl.sql.statements import command_tag
from pgrepl.statements.definitions.changes import Definitions
from pgrepl.statements.definitions.definition import Key
from pgrepl.statements.definitions.shared import KIND, named, role_of
from pgrepl.statements.rehearse import Rehearsal
from pgrepl.statements.run import run

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_STEERING = frozenset(
    ("SelectStmt", "TransactionStmt", "VariableSetStmt", "VariableShowStmt", "DiscardStmt", "ConstraintsSetStmt")
)
_DECLARING = _STEERING | {
    "AlterDefaultPrivilegesStmt", "AlterDomainStmt", "AlterEnumStmt", "AlterCollationStmt", "AlterFunctionStmt",
    "AlterObjectSchemaStmt",
    "AlterOperatorStmt", "AlterOwnerStmt", "DefineStmt",
    "AlterPublicationStmt", "AlterRoleSetStmt", "AlterRoleStmt", "AlterSeqStmt", "AlterSubscriptionStmt",
    "AlterTableStmt", "CommentStmt", "CompositeTypeStmt", "CreateDomainStmt", "CreateEnumStmt", "CreateFunctionStmt",
    "CreateForeignServerStmt", "AlterForeignServerStmt", "CreateUserMappingStmt", "AlterUserMappingStmt",
    "CreatePublicationStmt", "CreateRangeStmt", "CreateRoleStmt", "CreateSchemaStmt", "CreateSeqStmt", "CreateStmt",
    "CreateSubscriptionStmt", "CreateTableAsStmt", "CreateTrigStmt", "GrantRoleStmt", "GrantStmt", "IndexStmt",
    "ViewStmt",
}  # fmt: skip


_KINDS = {CreateStmt: "table", ViewStmt: "view", CreateSeqStmt: "sequence", CreateTableAsStmt: "materialized view"}


class Naming(Rehearsal):
    """Notes the names of what a file makes, and makes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.named: set[Key] = set()

    def execute(self, stmt: Statement, session: Session) -> Result:
        if type(stmt).__name__ in _STEERING and command_tag(stmt) != "SELECT INTO":
            return super().execute(stmt, session)
        self._note(stmt, session)
        return Result(command_tag(stmt))

    def _note(self, stmt: Statement, session: Session) -> None:
        if isinstance(stmt, (CreateStmt, ViewStmt, CreateSeqStmt, CreateTableAsStmt)):
            kind = _KINDS[type(stmt)]
            schema = quote_identifier(stmt.relation.schema or "public")
            self.named.add((kind, f"{schema}.{quote_identifier(stmt.relation.name)}"))
        elif isinstance(stmt, CompositeTypeStmt):
            self._note_type(stmt.relation)
        elif isinstance(stmt, (CreateEnumStmt, CreateDomainStmt, CreateRangeStmt)):
            self._note_type(stmt.name)
        elif isinstance(stmt, CreateFunctionStmt):
            self.named.add(("routine", quote_qualified(*(("public", *stmt.name)[-2:]))))
        elif isinstance(stmt, DefineStmt):
            schema, symbol = ("public", *stmt.name)[-2:]
            name = symbol if stmt.kind is ObjectType.OPERATOR else quote_identifier(symbol)
            self.named.add((stmt.kind.value, f"{quote_identifier(schema)}.{name}"))
        elif isinstance(stmt, CreateSchemaStmt):
            self.named.add(("schema", quote_identifier(stmt.name or "")))
            for element in stmt.elements:
                self._note(element, session)
        elif isinstance(stmt, CreatePublicationStmt):
            self.named.add(("publication", quote_identifier(stmt.name)))
        elif isinstance(stmt, CreateSubscriptionStmt):
            self.named.add(("subscription", quote_identifier(stmt.name)))
        elif isinstance(stmt, CreateForeignServerStmt):
            self.named.add(("server", quote_identifier(stmt.name)))
        elif isinstance(stmt, CreateUserMappingStmt):
            with reading(session):
                who = "PUBLIC" if stmt.user.word == "public" else quote_identifier(role_of(session, stmt.user))
            self.named.add(("user mapping", f"FOR {who} SERVER {quote_identifier(stmt.server)}"))
        elif isinstance(stmt, CreateRoleStmt):
            self.named.add(("role", quote_identifier(stmt.name)))
        elif isinstance(stmt, AlterDefaultPrivilegesStmt):
            with reading(session):
                self.named.update((KIND, name) for name in named(stmt, session))

    def _note_type(self, name: RangeVar) -> None:
        self.named.add(("type", quote_qualified(name.schema or "public", name.name)))


class Declaring(Rehearsal):
    """Makes what a file declares. What has no part in a plan is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions: dict[str, str] = {}  # the statements that have made them

    def execute(self, stmt: Statement, session: Session) -> Result:
        if type(stmt).__name__ not in _DECLARING or command_tag(stmt) in ("SELECT INTO", "CREATE TABLE AS"):
            hint = "A plan is for one database: make it first." if isinstance(stmt, CreateDatabaseStmt) else None
            raise PgError("0A000", f"{command_tag(stmt)} cannot be part of a plan", hint=hint)
        if isinstance(stmt, CreateSubscriptionStmt) and session.query.count(";") <= 1:
            self.subscriptions[stmt.name] = session.query.rstrip().removesuffix(";") + ";"
        return super().execute(stmt, session)


def _without_types(kind: str, name: str) -> str:
    """A file names all routines or operators of a name together."""
    return name.partition("(")[0].rstrip() if kind in ("routine", "operator") else name


Step = TypeVar("Step")

_RELATIONS = ("table", "view", "materialized view", "sequence")


def seed(session: Session, there: Definitions, named: Collection[Key], kinds: Collection[str]) -> None:
    """Make what is there already and is not named by the file; of `kinds` nothing. What needs something that the file
    names is left out, and so are sequences that belong to a column of it."""
    relations = {name for kind, name in named if kind in _RELATIONS}
    steps = []
    for kind, name in there:
        owner = there[kind, name].facts.get("owned by")
        is_named = name in relations if kind in _RELATIONS else (kind, _without_types(kind, name)) in named
        belongs = owner is not None and any(f" OWNED BY {table}." in owner.made[0] for table in relations)
        if kind not in kinds and not is_named and not belongs:
            steps += there[kind, name].made
    list(run(session, "SET check_function_bodies = false", Rehearsal().execute))
    in_some_order(
        [text for _, text in sorted(steps, key=lambda step: step[0])],
        lambda text: list(run(session, text, Rehearsal().execute)),
    )


def in_some_order(steps: Sequence[Step], take: Callable[[Step], object]) -> list[tuple[Step, PgError]]:
    """Take steps that may need one another, those that fail again after the others; what always fails, and why."""
    while True:
        failed: list[tuple[Step, PgError]] = []
        for step in steps:
            try:
                take(step)
            except PgError as problem:
                failed.append((step, problem))
        if len(failed) in (0, len(steps)):
            return failed
        steps = [step for step, _ in failed]
