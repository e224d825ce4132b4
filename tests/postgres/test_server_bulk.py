"""Changes of a server decoded in bulk are those that are decoded one by one, and Spark applies them to the same end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pgrepl.replication.bulk.batch import WireBatch
from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.postgres import bulk_changes
from pgrepl.replication.postgres.connecting import to_server
from pgrepl.replication.sending.wire import UNCHANGED, Message, SentRelation, WireTransaction
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text
from tests.postgres.served import Served

STYLE = TextStyle(timezone="UTC", extra_float_digits=3)


TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, n numeric(10,2), d timestamptz, f float8, o boolean, u uuid);"
    "CREATE TABLE whole (a int, b text, big text); ALTER TABLE whole REPLICA IDENTITY FULL;"
    "CREATE TABLE large (a bigint PRIMARY KEY, b text, big text); ALTER TABLE large ALTER big SET STORAGE EXTERNAL"
)


def change(random: Random, number: int) -> str:
    key = random.randrange(30)
    text = random.choice(["NULL", "''", "'a'", "'twelve bytes'", "'thirteen byte'", "'ä€😀 and a longer text'"])
    big = f"repeat('{random.choice('xyz')}', 9000)"
    return random.choice(
        [
            f"INSERT INTO t VALUES ({number + 100}, {text}, {number}.5, '2024-01-01Z', {number} / 3.0, true, "
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
            f"INSERT INTO whole VALUES ({key}, {text}, {big})",
            f"INSERT INTO large VALUES ({number + 100}, {text}, {big})",
            f"UPDATE t SET b = {text}, d = NULL WHERE a % 10 = {key % 10}",
            f"UPDATE t SET a = -a, f = 'NaN' WHERE a % 7 = {key % 7}",
            f"UPDATE whole SET b = {text} WHERE a = {key}",
            f"UPDATE large SET b = {text} WHERE a % 5 = {key % 5}",
            f"UPDATE large SET a = -a WHERE a % 5 = {key % 5}",
            f"DELETE FROM t WHERE a % 11 = {key % 11}",
            f"DELETE FROM whole WHERE a = {key}",
            f"DELETE FROM large WHERE a % 13 = {key % 13}",
            random.choice(["TRUNCATE whole", "TRUNCATE t, large"]) if random.random() < 0.2 else "SELECT 1",
        ]
    )


def played(served: Served, random: Random, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        if random.random() < 0.3:
            parts = "; ".join(change(random, 100_000 + number * 10 + part) for part in range(4))
            served.pub(f"BEGIN; {parts}; {random.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])}")
        else:
            served.pub(change(random, number))


Plain = tuple[Any, ...]


def one_by_one(transactions: list[WireTransaction]) -> list[Plain]:
    found: list[Plain] = []
    for transaction in transactions:
        found.append((transaction.xid, transaction.finish_lsn, transaction.end_lsn, transaction.committed_at))
        for message in transaction.messages:
            if isinstance(message, Message):
                found.append((message.relation.name, message.operation[0].upper(), _key(message), message.new))
            else:
                found.append(tuple(relation.name for relation in message.relations))
    return found


def _key(message: Message) -> Plain | None:
    if message.old is None:
        return None
    return tuple(v if column.is_key else None for v, column in zip(message.old, message.relation.columns, strict=True))


def in_bulk(batch: WireBatch) -> list[Plain]:
    found: list[tuple[int, Plain]] = [
        (t.first_seq, (t.xid, t.finish_lsn, t.end_lsn, t.committed_at)) for t in batch.transactions
    ]
    for seq, truncate in batch.truncates:
        found.append((seq, tuple(relation.name for relation in truncate.relations)))
    for changes in batch.changes:
        relation = changes.relation
        places = range(len(relation.columns))
        new = [_texts(relation, place, changes.values(place).to_pylist()) for place in places]
        old = [_texts(relation, place, changes.values(place, old=True).to_pylist()) for place in places]
        for at in range(changes.count):
            operation = chr(changes.op[at])
            before = tuple(column[at] for column in old) if changes.has_old[at] else None
            after = None if operation == "D" else tuple(column[at] for column in new)
            found.append((int(changes.seq[at]), (relation.name, operation, before, after)))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


def _texts(relation: SentRelation, place: int, values: list[Any]) -> list[Any]:
    from pgrepl.types.lake_forms import form

    column = relation.columns[place]
    array = form(column.type, column.typmod)
    import pyarrow as pa

    read = array.from_array(pa.array(values, array.arrow()))
    return [None if value is None else write_text(value, column.type, STYLE) for value in read]


def sent_as_null(entry: Plain) -> Plain:
    return tuple(
        tuple(None if v is UNCHANGED else v for v in part) if isinstance(part, tuple) else part for part in entry
    )


@pytest.mark.parametrize("seed", range(3))
def test_both_decoders_say_the_same(served: Served, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(bulk_changes, "_PORTION", 20_000)
    served.pub(TABLES)
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    publisher = to_server(parse_conninfo(served.conninfo), f"{served.folder}/")
    start = publisher.create_slot(served.slot, two_phase=False, failover=False)
    played(served, Random(seed), 60)
    end = publisher.current_lsn()
    plain = list(publisher.transactions(served.slot, ["p"], start, end, local_only=False))
    found = publisher.bulk(served.slot, ["p"], start, end, local_only=False, least=1)
    assert found is not None
    batch, reached = found
    assert reached >= end
    assert in_bulk(batch) == [sent_as_null(entry) for entry in one_by_one(plain)]
    assert any(UNCHANGED in entry[3] for entry in one_by_one(plain) if len(entry) == 4 and isinstance(entry[3], tuple))
    assert any(changes.unchanged for changes in batch.changes)
    batch.discard()
    publisher.close()


def test_a_batch_ends_before_a_relation_is_described_anew(served: Served) -> None:
    served.pub("CREATE TABLE t (a int PRIMARY KEY, b text)")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    publisher = to_server(parse_conninfo(served.conninfo), f"{served.folder}/")
    start = publisher.create_slot(served.slot, two_phase=False, failover=False)
    served.pub("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 50) g")
    served.pub(
        "BEGIN; INSERT INTO t VALUES (51, 'y'); ALTER TABLE t ADD c int; INSERT INTO t VALUES (52, 'z', 1); COMMIT"
    )
    served.pub("INSERT INTO t VALUES (53, 'after', 2)")
    end = publisher.current_lsn()
    found = publisher.bulk(served.slot, ["p"], start, end, local_only=False, least=1)
    assert found is not None
    batch, reached = found
    assert (len(batch.transactions), batch.count) == (1, 50)
    batch.discard()
    assert publisher.bulk(served.slot, ["p"], reached, end, local_only=False, least=1) is None
    publisher.close()


@pytest.mark.parametrize("publishing", [16], indirect=True)
def test_spark_applies_them_to_the_same_end(served: Served) -> None:
    served.sub("SET pgrepl.engine = 'spark'")
    served.both(TABLES.replace("ALTER TABLE large ALTER big SET STORAGE EXTERNAL", "SELECT 1"))
    served.pub("ALTER TABLE large ALTER big SET STORAGE EXTERNAL")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    served.subscribe()
    random = Random(5)
    for number in range(2):
        played(served, random, 40, number * 1000)
        assert served.catch_up() == []
        for table in ("t", "whole", "large"):
            served.same(f"SELECT * FROM {table} ORDER BY 1, 2, 3")
