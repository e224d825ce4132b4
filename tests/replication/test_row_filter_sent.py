"""One table says what is sent of a change, whether it comes as a row or in columns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pgrepl.replication.publisher.plan import ReplicaIdentity
from pgrepl.replication.publisher.row_filter import SENT, sent_of
from pgrepl.replication.wire.batch import CODES
from pgrepl.replication.wire.messages import DELETE, INSERT, UPDATE

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
