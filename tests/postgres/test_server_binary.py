"""Subscriptions with binary = true to a real server: values travel in binary form, and are the same here."""

from __future__ import annotations

from random import Random

import pytest

from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.publisher.postgres.publisher import to_server
from pgrepl.replication.publisher.protocol import StreamRequest
from pgrepl.replication.publisher.senders import StreamOptions, WalSender
from pgrepl.replication.wire import values as binary_values
from pgrepl.types import oids
from tests.harness.database import by_message
from tests.harness.programs import eventually
from tests.postgres.served import Served
from tests.postgres.test_server_columns import TABLES, Plain, as_columns, played
from tests.postgres.test_server_copies import TYPES
from tests.postgres.test_server_faults import following


def typed_table(served: Served) -> str:
    """A table of all types that is subscribed to, and the query of it."""
    served.both("SET timezone = 'UTC'")
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(TYPES))
    served.both(f"CREATE TABLE t (k int PRIMARY KEY, {columns})")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    served.subscribe(options="binary = true")
    return f"SELECT k, {', '.join(f'c{number}::text' for number in range(len(TYPES)))} FROM t ORDER BY k"


def write(served: Served) -> int:
    """A row of the first values of all types, one of the second ones and so on; their number."""
    longest = max(map(len, TYPES.values()))
    for number in range(longest):
        values = [some[number] if number < len(some) else "NULL" for some in TYPES.values()]
        served.pub(f"INSERT INTO t VALUES ({number}, {', '.join(values)})")
    return longest


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_every_type_in_binary_form_is_the_same_here(served: Served, way: str) -> None:
    by_message(served.sub)
    if way == "columns":
        served.sub("ALTER DATABASE sub SET pgrepl.local_rows = 0")
    query = typed_table(served)
    count = write(served)
    assert served.catch_up() == []
    assert len(served.same(query)) == count
    served.pub("UPDATE t SET k = k + 100 WHERE k < 2; DELETE FROM t WHERE k = 2; UPDATE t SET c0 = NULL WHERE k = 3")
    assert served.catch_up() == []
    assert len(served.same(query)) == count - 1


def test_columns_of_binary_values_are_those_of_texts(served: Served) -> None:
    served.pub(f"{TABLES}; CREATE TABLE more (a smallint PRIMARY KEY, d date, s timestamp, j jsonb, f real, i int[])")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    by_form = []
    for name in (served.slot, f"{served.slot}_binary"):
        publisher = to_server(parse_conninfo(served.conninfo), f"{served.folder}/")
        by_form.append((name, publisher, publisher.slots.create(name, two_phase=False, failover=False)))
    played(served, Random(3), 60)
    served.pub(
        "INSERT INTO more VALUES (-1, '0001-01-01', '9999-12-31 23:59:59.999999', '{\"a\": 1}', 'NaN', '{1,NULL}')"
    )
    served.pub("INSERT INTO more VALUES (2, NULL, NULL, NULL, 0.1, NULL); UPDATE more SET a = 3 WHERE a = -1")
    end = by_form[0][1].stream.current_lsn()
    sent: list[list[Plain]] = []
    for name, publisher, start in by_form:
        if name != served.slot:
            options = StreamOptions(("p",), "any", binary=True)
            publisher.slots.occupy(name, WalSender("", name, "", options=options))
        sent.append([])
        reached = start
        while (found := publisher.stream.batch(StreamRequest(name, ("p",), reached, end), 1)) is not None:
            batch, reached = found
            sent[-1] += as_columns(batch)
            batch.discard()
        assert reached >= end
        publisher.slots.leave(name, "")
        publisher.close()
    assert len(sent[0]) > 60
    assert sent[0] == sent[1]


def test_a_text_takes_the_bytes_of_a_copy(served: Served) -> None:
    served.pub("CREATE TABLE t (a int PRIMARY KEY, b bool); INSERT INTO t VALUES (1, true)")
    served.sub("CREATE TABLE t (a int PRIMARY KEY, b text)")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe(options="binary = true")
    served.pub("INSERT INTO t VALUES (2, true)")
    assert served.catch_up() == []
    assert served.sub("SELECT * FROM t ORDER BY a") == [("1", "\x01"), ("2", "\x01")]


def test_a_follower_asks_for_binary_form(served: Served) -> None:
    """And receives what only the server has a type for by the column's own receive function."""
    mood, row = "CREATE TYPE mood AS ENUM ('sad', 'happy')", "CREATE TYPE pair AS (a int, m mood)"
    served.pub("CREATE DOMAIN apart AS int")  # user-defined types have other OIDs here
    served.both(f"{mood}; {row}; CREATE DOMAIN positive AS int CHECK (value > 0)")
    served.both("CREATE TABLE t (k int PRIMARY KEY, m mood, b pair, p positive, l mood[])")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    served.subscribe(options="binary = true")
    with following(served):
        asked = "SELECT query FROM pg_stat_activity WHERE backend_type = 'walsender' AND datname = current_database()"
        eventually(lambda: any("binary 'true'" in row[0] for row in served.pub(asked)))
        served.pub("INSERT INTO t VALUES (1, 'happy', '(1,sad)', 5, '{sad,happy}'), (2, NULL, NULL, NULL, NULL)")
        served.pub("UPDATE t SET m = 'sad' WHERE k = 1")
        eventually(lambda: served.sub("SELECT m FROM t ORDER BY k") == [("sad",), (None,)])
    assert len(served.same("SELECT * FROM t ORDER BY k")) == 2


def test_a_binary_value_as_text_is_what_the_server_would_have_sent() -> None:
    value = binary_values.binary_value(oids.INT4, (258).to_bytes(4, "big"))
    assert binary_values.as_text(value, oids.INT4) == "258"
    assert binary_values.binary_value(oids.VARCHAR, "ä".encode()) == "ä"
    assert binary_values.as_text("as it is", oids.UUID) == "as it is"


@pytest.mark.parametrize("rows", [1, 2000])
def test_a_copy_in_binary_form_has_types_of_users(served: Served, rows: int) -> None:
    """They have other OIDs here: one that no type has, or that of another type."""
    made = "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TYPE pair AS (a int, m mood); CREATE DOMAIN few AS int"
    served.pub(f"CREATE DOMAIN apart AS int; {made}")
    served.sub(made)
    served.both("CREATE TABLE t (k int PRIMARY KEY, m mood, b pair, s few, l mood[], r int4range)")
    served.pub(
        "INSERT INTO t SELECT g, 'happy', '(1,sad)', 5, '{sad,happy}', '[1,3)' "
        f"FROM generate_series(1, {rows}) g; INSERT INTO t VALUES (0)"
    )
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    served.subscribe(options="binary = true")
    assert served.catch_up() == []
    assert len(served.same("SELECT * FROM t ORDER BY k")) == rows + 1
