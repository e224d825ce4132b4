"""The names PostgreSQL makes up: `t_pkey`, `t_a_seq`, `t_a_b_idx1`, `t_check`.

Names are cut to 63 bytes, never inside a character, the longer part first, and numbered until they are unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgrepl.catalog import store
from pgrepl.catalog.relation import oid_in_schema
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_constraint

NAMEDATALEN = 64


def clip(name: str, size: int) -> str:
    """At most `size` bytes of a name, whole characters only, as pg_mbcliplen does."""
    data = name.encode()
    if len(data) <= size:
        return name
    return data[:size].decode(errors="ignore")


def make_object_name(name1: str, name2: str | None, label: str) -> str:
    """name1_name2_label in less than 64 bytes, as makeObjectName does."""
    room = NAMEDATALEN - 1 - len(label.encode()) - 1 - (1 if name2 is not None else 0)
    size1, size2 = len(name1.encode()), len(name2.encode()) if name2 is not None else 0
    while size1 + size2 > room:
        if size1 > size2:
            size1 -= 1
        else:
            size2 -= 1
    parts = [clip(name1, size1)]
    if name2 is not None:
        parts.append(clip(name2, size2))
    return "_".join([*parts, label])


def name_addition(columns: Iterable[str]) -> str:
    """The column part of a made-up name, as ChooseIndexNameAddition does: enough columns to fill a name."""
    text = ""
    for column in columns:
        text = f"{text}_{column}" if text else column
        if len(text.encode()) >= NAMEDATALEN:
            break
    return text


def constraint_exists(session: Session, name: str, namespace: int) -> bool:
    """Whether a constraint of the schema has this name."""
    return (
        store.one(session, pg_constraint, datid=session.database_oid, connamespace=namespace, conname=name) is not None
    )


def constraint_on(session: Session, relation: int, name: str) -> bool:
    """Whether a constraint of this relation has the name (ConstraintNameIsUsed)."""
    return store.one(session, pg_constraint, conrelid=relation, conname=name) is not None


def choose_relation_name(
    session: Session, name1: str, name2: str | None, label: str, namespace: int, *, constraint: bool = False
) -> str:
    """An unused relation name, as ChooseRelationName finds it."""
    number = 0
    while True:
        name = make_object_name(name1, name2, label if number == 0 else f"{label}{number}")
        if oid_in_schema(session, namespace, name) is None and not (
            constraint and constraint_exists(session, name, namespace)
        ):
            return name
        number += 1


def choose_constraint_name(
    session: Session, name1: str, name2: str | None, label: str, namespace: int, others: Sequence[str] = ()
) -> str:
    """An unused constraint name, as ChooseConstraintName finds it."""
    number = 0
    while True:
        name = make_object_name(name1, name2, label if number == 0 else f"{label}{number}")
        if name not in others and not constraint_exists(session, name, namespace):
            return name
        number += 1


def choose_column_names(wanted: Sequence[str]) -> tuple[str, ...]:
    """The names of an index's columns: unlike each other, as ChooseIndexColumnNames does."""
    chosen: list[str] = []
    for original in wanted:
        name, number = original, 0
        while name in chosen:
            number += 1
            suffix = str(number)
            name = clip(original, NAMEDATALEN - 1 - len(suffix)) + suffix
        chosen.append(name)
    return tuple(chosen)
