"""The states of copied tables: when the main stream takes over from the copy."""

from __future__ import annotations

import pytest

from pgrepl.catalog.facts.subscription import (
    INIT,
    READY,
    SYNC_DONE,
    TWO_PHASE_DISABLED,
    TWO_PHASE_ENABLED,
    TWO_PHASE_PENDING,
)
from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, rows
from pgrepl.replication.subscriber import state
from tests.harness.pair import Pair


def test_a_table_becomes_ready_when_the_main_stream_has_come_as_far_as_its_copy(pair: Pair) -> None:
    """A table that is ready before would have the transactions applied once more that its copy has."""
    pair.both("CREATE TABLE a (a int); CREATE TABLE b (a int); CREATE TABLE c (a int)")
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()
    with statement(pair.sub.session, writes=True):
        (subid,) = {row.srsubid for row in rows(pair.sub.session, tables.pg_subscription_rel)}
        a, b, c = sorted(state.table_states(pair.sub.session, subid))
        for relid, lsn in ((a, 20), (b, 30), (c, 20)):
            state.set_table_state(pair.sub.session, subid, relid, SYNC_DONE, lsn)

        def settled(lsn: int, *besides: int) -> list[tuple[str, int]]:
            state.settle_tables(pair.sub.session, subid, lsn, besides)
            states = state.table_states(pair.sub.session, subid)
            return [states[relid] for relid in (a, b, c)]

        assert settled(19) == [(SYNC_DONE, 20), (SYNC_DONE, 30), (SYNC_DONE, 20)]
        assert settled(20, c) == [(READY, 20), (SYNC_DONE, 30), (SYNC_DONE, 20)]
        assert settled(29) == [(READY, 20), (SYNC_DONE, 30), (READY, 20)]
        states = state.table_states(pair.sub.session, subid)
        assert [state.applies_from(states, relid) for relid in (a, b, 0)] == [0, 30, None]
        assert settled(30) == [(READY, 20), (READY, 30), (READY, 20)]


def test_a_tables_own_stream_counts_its_table_as_ready(pair: Pair) -> None:
    pair.both("CREATE TABLE a (a int); CREATE TABLE b (a int)")
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()
    with statement(pair.sub.session, writes=True):
        (row,) = rows(pair.sub.session, tables.pg_subscription)
        a, b = sorted(state.table_states(pair.sub.session, row.oid))
        assert state.states_for(pair.sub.session, row.oid, a) == {a: (READY, 0)}
        assert state.states_for(pair.sub.session, row.oid, 0).keys() == {a, b}
        assert [state.table_state(pair.sub.session, row.oid, relid) for relid in (a, 0)] == [READY, ""]
        state.set_table_state(pair.sub.session, row.oid, b, INIT, None)
        state.settle_tables(pair.sub.session, row.oid, 2**60, ())
        assert state.table_states(pair.sub.session, row.oid)[b] == (INIT, 0)


@pytest.mark.parametrize("requested", [TWO_PHASE_DISABLED, TWO_PHASE_PENDING, TWO_PHASE_ENABLED])
def test_two_phase_begins_when_all_tables_are_ready(pair: Pair, requested: str) -> None:
    pair.both("CREATE TABLE a (a int); CREATE TABLE b (a int)")
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()
    with statement(pair.sub.session, writes=True):
        (row,) = rows(pair.sub.session, tables.pg_subscription)
        row = row._replace(subtwophasestate=requested)
        last = max(state.table_states(pair.sub.session, row.oid))
        is_pending = requested == TWO_PHASE_PENDING
        assert state.two_phase_can_begin(pair.sub.session, row) == is_pending
        state.set_table_state(pair.sub.session, row.oid, last, SYNC_DONE, 20)
        assert not state.two_phase_can_begin(pair.sub.session, row)
        delete(pair.sub.session, tables.pg_subscription_rel, srsubid=row.oid)
        assert not state.two_phase_can_begin(pair.sub.session, row)


def test_a_table_that_is_ready_needs_no_ranges_of_its_copy(pair: Pair) -> None:
    pair.both("CREATE TABLE a (a int)")
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()
    with statement(pair.sub.session, writes=True):
        (row,) = rows(pair.sub.session, tables.pg_subscription_rel)
        state.set_table_state(pair.sub.session, row.srsubid, row.srrelid, SYNC_DONE, 20)
        values = {"lower": None, "upper": None, "snapshot": None}
        insert(pair.sub.session, tables.pgrepl_copy_range, subid=row.srsubid, relid=row.srrelid, number=0, **values)
        state.settle_tables(pair.sub.session, row.srsubid, 20, ())
        assert rows(pair.sub.session, tables.pgrepl_copy_range) == []
