"""One table says what is sent of a change, whether it comes as a row or in columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.expr.functions.registry import Context
from pgrepl.replication.publisher.plan import (
    SENT,
    ReplicaIdentity,
    SendPlan,
    TableMessages,
    any_true,
    by_columns,
    passing,
    send_plan,
    sent_of,
)
from pgrepl.replication.wire.batch import CODES
from pgrepl.replication.wire.messages import DELETE, INSERT, UPDATE
from pgrepl.types.lake.arrays import Form
from pgrepl.types.lake.scalars import scalar_form
from pgrepl.types.oids import REGCLASS
from tests.harness.pair import Pair

OLD, NEW, OTHER = (1, "a", None), (1, "b", None), (2, "b", None)


@pytest.mark.parametrize(
    ("before", "after", "sent"),
    [(True, True, UPDATE), (True, False, DELETE), (False, True, INSERT), (False, False, None)],
)
def test_an_update_of_a_known_row(before: bool, after: bool, sent: str | None) -> None:
    assert SENT.get((UPDATE, True, before, after)) == sent


@pytest.mark.parametrize("passes", [True, False])
def test_of_an_unknown_old_row_only_the_new_one_counts(passes: bool) -> None:
    assert SENT.get((UPDATE, False, False, passes)) == (UPDATE if passes else None)
    assert SENT.get((DELETE, False, passes, False)) is None


@pytest.mark.parametrize(("operation", "known", "before", "after"), list(product(CODES, *[(False, True)] * 3)))
def test_columns_are_decided_as_rows_are(operation: str, known: bool, before: bool, after: bool) -> None:
    codes = np.array([CODES[operation]], np.uint8)
    found = int(sent_of(codes, np.array([known]), np.array([before]), np.array([after]))[0])
    sent = SENT.get((operation, known, before, after))
    assert found == (0 if sent is None else CODES[sent])


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("columns", [frozenset[int](), frozenset({1})])
def test_old_rows_are_known_alike(whole: bool, columns: frozenset[int]) -> None:
    identity = ReplicaIdentity(whole, columns)
    steps = [(OLD, None), (OLD, NEW), (OLD, OTHER)]
    deleted, updated = np.array([True, False, False]), np.array([False, True, True])
    have = identity.have_image(deleted, updated, lambda of: of & np.array([False, False, True]))
    assert have.tolist() == [identity.image(old, new) is not None for old, new in steps]
    assert identity.image(OLD, None) == (OLD if whole else (1, None, None) if columns else None)


# --- rows and columns -------------------------------------------------------------------------------------------------

Change = tuple[tuple[object, ...] | None, tuple[object, ...] | None]
ROWS: list[tuple[object, ...]] = [(k, v, d) for k in (1, 2, 3) for v in (0, 5, None) for d in (None,)]
CHANGES: list[Change] = [
    *[(None, new) for new in ROWS],
    *[(old, None) for old in ROWS],
    *[(old, new) for old in ROWS for new in ROWS],
]


def planned(pair: Pair, identity: str, publications: Sequence[str]) -> SendPlan:
    pair.pub("CREATE TABLE t (k int NOT NULL, v int, gone int, d text); ALTER TABLE t DROP gone")
    pair.pub("CREATE UNIQUE INDEX i ON t (k)", f"ALTER TABLE t REPLICA IDENTITY {identity}")
    for name, given in zip("pq", publications, strict=False):
        pair.pub(f"CREATE PUBLICATION {name} FOR TABLE t {given}")
    plan = send_plan(pair.pub.session, "pq"[: len(publications)], pair.pub.session.object_oid(REGCLASS, "t"))
    assert plan is not None
    return plan


def test_without_a_filter_every_row_passes() -> None:
    assert any_true((), Context())(OLD) is True


@pytest.mark.parametrize("identity", ["FULL", "USING INDEX i", "NOTHING"])
@pytest.mark.parametrize(
    "publications",
    [
        ["WITH (publish = 'insert, update, delete')"],
        ["WHERE (k <> 2) WITH (publish = 'insert, delete')"],
        ["WHERE (k <> 2 AND v > 1) WITH (publish = 'insert, update, delete')"],
        ["WHERE (k <> 2)", "WHERE (v > 1)"],
        ["WHERE (k <> 2) WITH (publish = insert)", "WHERE (k = 1) WITH (publish = 'update, delete')"],
    ],
)
def test_whole_columns_are_decided_as_rows_are(pair: Pair, identity: str, publications: list[str]) -> None:
    with reading(pair.pub.session):
        plan = planned(pair, identity, publications)
        rows = [(None if old is None else (*old[:2], None, old[2]), None if new is None else (*new[:2], None, new[2]))
                for old, new in CHANGES]  # fmt: skip
        messages = TableMessages(plan)
        names = [INSERT if old is None else DELETE if new is None else UPDATE for old, new in rows]
        wanted = [
            None
            if (told := messages.message(old, new)) is None
            else (told.operation, told.old, told.new, told.whole_old)
            for old, new in rows
        ]
        codes = np.array([CODES[name] for name in names], np.uint8)
        images = [None if old is None else plan.identity.image(old, new) for old, new in rows]
        known = np.array([image is not None for image in images])
        tests = by_columns(pair.pub.session, plan)

        def form_of(number: int) -> Form:
            attribute = plan.table.attributes[number - 1]
            return scalar_form(attribute.type, attribute.typmod)

        def picked(side: int, number: int, at: np.ndarray[Any, Any]) -> pa.Array:
            return form_of(number).to_array([row[number - 1] for n in at if (row := rows[n][side]) is not None])

        before = passing(plan, tests, codes, known, form_of, partial(picked, 0), new=False)
        after = passing(plan, tests, codes, codes != CODES[DELETE], form_of, partial(picked, 1), new=True)
        sent = sent_of(codes, known, before, after)
        published = [name in plan.operations for name in names]
        found = [code if is_published else 0 for code, is_published in zip(sent.tolist(), published, strict=True)]
        assert found == [0 if one is None else CODES[one[0]] for one in wanted]
        for one, image, (_, new) in zip(wanted, images, rows, strict=True):
            if one is not None:
                kind, old_sent, new_sent, whole_old = one
                assert whole_old == (identity == "FULL" and kind != INSERT)
                assert old_sent == (None if image is None or kind == INSERT else (*image[:2], image[3]))
                assert new_sent == (None if new is None or kind == DELETE else (*new[:2], new[3]))
