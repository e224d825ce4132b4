"""CREATE TABLE (LIKE other): columns at once, defaults, CHECKs and indexes once the table exists."""

from __future__ import annotations

from pgrepl.catalog.acl import check_table_privilege
from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.comments import comment_on, put_comment
from pgrepl.catalog.constraint import constraint_named, constraints_of
from pgrepl.catalog.relation import Relation, find_relation, relation
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.attmap import attnum_map, mapped
from pgrepl.expr.defaults import defaults_of
from pgrepl.expr.index_info import index_infos
from pgrepl.sql.nodes import TableLikeClause
from pgrepl.statements.table.columns import column_of_type
from pgrepl.statements.table.constraints import Check, add_checks
from pgrepl.statements.table.context import Clauses, ColumnComment, Like, add_sequence
from pgrepl.statements.table.defaults import remove_default, store_default


def add_like(clauses: Clauses, clause: TableLikeClause) -> None:
    """The columns, with NOT NULL and, if they are included, identity, storage and comments
    (transformTableLikeClause)."""
    session, options = clauses.session, clause.options
    try:
        source = find_relation(session, clause.relation)
        if source.kind not in ("r", "v", "m", "c", "f", "p"):
            raise PgError(
                "42809", f'relation "{source.name}" is invalid in LIKE clause', detail=not_supported(source.kind)
            )
    except PgError as error:
        raise error.at(clause.relation.location) from None
    check_table_privilege(session, source, "SELECT")
    for attribute in source.columns:
        column = column_of_type(
            attribute.name,
            attribute.type,
            attribute.typmod,
            attribute.collation,
            ndims=attribute.ndims,
            not_null=attribute.notnull,
        )
        clauses.columns.append(column)
        if attribute.has_default and attribute.generated and "generated" in options:
            column.generated = attribute.generated
        if attribute.identity and "identity" in options:
            from pgrepl.catalog.sequences import identity_sequence
            from pgrepl.statements.sequence import sequence_of
            from pgrepl.statements.sequence_options import as_options

            like = sequence_of(session, identity_sequence(session, source.oid, attribute.num))
            add_sequence(clauses, column, None, as_options(like), identity=True)
            column.identity = attribute.identity
        if "storage" in options:
            column.storage = attribute.storage
        if "compression" in options:
            column.compression = attribute.compression
        if "comments" in options:
            text = comment_on(session, PG_CLASS, source.oid, attribute.num)
            if text is not None:
                clauses.comments.append(ColumnComment(attribute.name, text))
    if options & {"defaults", "generated", "constraints", "indexes", "statistics"}:
        clauses.likes.append(Like(source.oid, options))


def expand_like(session: Session, table: int, like: Like) -> None:
    """Defaults, CHECKs and indexes, once the columns have their numbers (expandTableLikeClause)."""
    source, rel = relation(session, like.relation), relation(session, table)
    numbers = attnum_map(rel, source)
    if like.options & {"defaults", "generated"}:
        _copy_defaults(session, source, rel, numbers, like.options)
    if "constraints" in like.options:
        _copy_checks(session, source, rel, numbers, with_comments="comments" in like.options)
    if "indexes" in like.options:
        _copy_indexes(session, source, table, numbers, with_comments="comments" in like.options)


def _copy_defaults(
    session: Session, source: Relation, rel: Relation, numbers: dict[int, int], options: frozenset[str]
) -> None:
    defaults = defaults_of(session, source.oid)
    for attribute in source.columns:
        wanted = "generated" if attribute.generated else "defaults"
        if attribute.num not in defaults or wanted not in options:
            continue
        detail = (
            f'Generation expression for column "{attribute.name}" contains a whole-row reference to table '
            f'"{source.name}".'
        )
        expr = mapped(defaults[attribute.num], numbers, detail)
        number = numbers[attribute.num]
        remove_default(session, rel.oid, number)
        store_default(session, rel.oid, number, expr, attribute.generated)


def _copy_checks(
    session: Session, source: Relation, rel: Relation, numbers: dict[int, int], *, with_comments: bool
) -> None:
    comments: list[tuple[str, str]] = []
    checks: list[Check] = []
    for row in constraints_of(session, source.oid, "c"):
        detail = f'Constraint "{row.conname}" contains a whole-row reference to table "{source.name}".'
        expr = mapped(stored.from_json(row.conbin, session), numbers, detail)
        checks.append(Check(row.conname, expr, no_inherit=bool(row.connoinherit)))
        text = comment_on(session, PG_CONSTRAINT, row.oid) if with_comments else None
        if text is not None:
            comments.append((row.conname, text))
    for check in checks:
        add_checks(session, relation(session, rel.oid), [check], merge=False)
    for name, text in comments:
        made = constraint_named(session, rel.oid, name)
        if made is not None:
            put_comment(session, ObjectAddress(PG_CONSTRAINT, made.oid), text)


def _copy_indexes(
    session: Session, source: Relation, table: int, numbers: dict[int, int], *, with_comments: bool
) -> None:
    from pgrepl.statements.index.clone import cloned_spec
    from pgrepl.statements.index.define import define_index

    for info in index_infos(session, source.oid):
        text = comment_on(session, PG_CLASS, info.oid) if with_comments else None
        spec, _ = cloned_spec(session, info.oid, numbers, comment=text)
        define_index(session, table, spec, alter_table=True)


def comment_column(session: Session, table: int, comment: ColumnComment) -> None:
    attribute = relation(session, table).attribute(comment.column)
    if attribute is not None:
        put_comment(session, ObjectAddress(PG_CLASS, table, attribute.num), comment.text)
