"""What `pgrepl changes` writes: read again it is what a subscription would have received."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.facts.relation import find_relation
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.replication.change_writer import ChangeWriter
from pgrepl.replication.formats.event import BEGIN, COMMIT, ChangeEvent
from pgrepl.replication.formats.registry import line_writer, reader
from pgrepl.replication.formats.sinks import LineSink, ParquetSink, Sink
from pgrepl.replication.formats.written import LineWriter, SourceFacts
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UPDATE, WireTransaction
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text, write_text
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.played import Instance
from tests.harness.programs import PATIENCE, eventually, started

FORMS = ["jsonl", "wal2json", "debezium", "debezium+schema", "parquet"]
COLUMNS = {
    "id": "bigint PRIMARY KEY", "i2": "smallint", "i4": "integer", "n": "numeric", "n2": "numeric(20,4)", "f4": "real",
    "f8": "double precision", "b": "boolean", "t": "text", "v": "varchar(50)", "c": "char(5)", "by": "bytea",
    "d": "date", "tm": "time", "tm3": "time(3)", "ttz": "timetz", "ts": "timestamp", "ts3": "timestamp(3)",
    "tz": "timestamptz", "iv": "interval", "j": "json", "jb": "jsonb", "u": "uuid", "bit1": "bit", "bit10": "bit(10)",
    "vb": "varbit", "ip": "inet", "cidr": "cidr", "mac": "macaddr", "r": "int4range", "tr": "tsrange",
    "ai": "integer[]", "at": "text[]", "an": "numeric[]", "ats": "timestamp[]", "ab": "bytea[]", "oid": "oid",
    "nm": "name",
}  # fmt: skip
ROWS: list[dict[str, str]] = [
    {
        "i2": "-32768", "i4": "2147483647", "n": "12345678901234567890.123456789012345678900", "n2": "0.0100",
        "f4": "1.5e-30", "f8": "0.1", "b": "t", "t": 'it\'s "x", \\ {a}\n\t ä € \u0001', "v": "", "c": "ab   ",
        "by": "\\x00ff", "d": "2024-02-29", "tm": "23:59:59.999999", "tm3": "01:02:03.004", "ttz": "10:00:00.5+05:30",
        "ts": "2024-02-29 12:00:00.123456", "ts3": "2024-02-29 12:00:00.123", "tz": "2024-02-29 12:00:00.123456+00",
        "iv": "1 year 2 mons -3 days 04:05:06.789", "j": '{"a": 1.10}', "jb": '[1.10, null]',
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "bit1": "1", "bit10": "0000000101", "vb": "00110",
        "ip": "10.0.0.1/8", "cidr": "10.0.0.0/8", "mac": "08:00:2b:01:02:03", "r": "[1,5)",
        "tr": '["2024-01-01 00:00:00",)',
        "ai": "{1,NULL,-3}", "at": '{"a b",NULL,"null","q\\"\\\\"}', "an": "{1.10,NaN}",
        "ats": '{"2024-02-29 12:00:00"}', "ab": '{"\\\\x00ff"}', "oid": "4294967295", "nm": "name",
    },
    {
        "n": "NaN", "f4": "Infinity", "f8": "-0", "b": "f", "t": "", "d": "infinity", "ts": "-infinity",
        "tz": "infinity", "iv": "-00:00:00.000001", "ai": "{}", "at": "{}", "vb": "", "bit1": "0", "by": "\\x",
        "an": "{1,2}", "ttz": "10:00:00-03", "jb": "null", "tr": "empty",
    },
    {
        "n": "-Infinity", "f8": "NaN", "f4": "-Infinity", "d": "0044-03-15 BC", "ts": "0044-03-15 10:00:00 BC",
        "tz": "0044-03-15 10:00:00+00 BC", "ts3": "infinity", "iv": "-2 mons +3 days", "vb": "101", "jb": '"text"',
    },
    {"tz": "20000-01-01 00:00:00+00", "ts": "20000-01-01 00:00:00", "d": "20000-01-01", "n": "1e100"},
]  # fmt: skip


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = Instance(tmp_path / "lake")
    yield made
    made.catalog.close()


CREATE = "CREATE PUBLICATION p FOR TABLE t"


class Written:
    """Runs of `pgrepl changes` in this process, with an output in one format."""

    def __init__(self, instance: Instance, form: str, folder: Path, publication: str = "p") -> None:
        self.instance, self.form = instance, form
        self.name, _, self.with_schema = form.partition("+")
        self.path = folder / f"out-{form}"
        self.publication = publication

    def run(
        self,
        since: int | None = 0,
        *,
        slot: str | None = None,
        upto: int | None = None,
        writer: LineWriter | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        session = open_session(self.instance.catalog, "pub")
        try:
            if self.name == "parquet":
                self._round(session, ParquetSink(self.path), since, slot, upto, stopped)
                return
            with self.path.open("r+b" if self.path.exists() else "w+b") as file:
                context = SourceFacts("pub", WIRE_STYLE, lambda: 0, bool(self.with_schema))
                made = writer or line_writer(self.name, context)
                self._round(session, LineSink(made, file, str(self.path)), since, slot, upto, stopped)
        finally:
            session.close()

    def _round(
        self,
        session: Any,
        sink: Sink,
        since: int | None,
        slot: str | None,
        upto: int | None,
        stopped: Callable[[], bool],
    ) -> None:
        out = ChangeWriter(session, [self.publication], slot or f"slot_{self.form.replace('+', '_')}", sink)
        try:
            out.start(since)
            out.round(upto, stopped)
        finally:
            out.close()

    def events(self) -> list[ChangeEvent]:
        """What the output's reader finds, without the ends of transactions."""
        options: dict[str, str] = {}
        if self.name == "parquet":
            options = {"op": "_op", "order": "_lsn", "xid": "_xid", "before": "_old", "at": "_at"}
        elif self.form == "debezium":
            options = {"decimal_handling_mode": "string"}
        files = sorted(self.path.glob("*/*")) if self.path.is_dir() else [self.path]
        found: list[ChangeEvent] = []
        for file in files:
            ways = [
                list(reader(self.name, options, self.types).read(file.open("rb"), file.name)),
                _one_by_one(reader(self.name, options, self.types).blocks(file.open("rb"), file.name)),
            ]
            assert len(ways[0]) == len(ways[1])
            found += ways[0]
        return [each for each in found if each.kind not in (BEGIN, COMMIT)]

    def types(self, schema: str | None, table: str | None) -> Mapping[str, tuple[int, int]] | None:
        session = self.instance.session("pub")
        with reading(session):
            relation = find_relation(session, RangeVar(table or "t", schema or "public"), missing_ok=True)
        return None if relation is None else {each.name: (each.type, each.typmod) for each in relation.columns}


def _one_by_one(blocks: Any) -> list[Any]:
    from pgrepl.replication.formats.event import events_in

    return [event for each in blocks for event in ([each] if isinstance(each, ChangeEvent) else events_in(each))]


def values(row: Mapping[str, str | None] | None, kinds: Mapping[str, tuple[int, int]]) -> dict[str, str | None]:
    """The row's values as the columns' types print them, once read."""
    style: TextStyle = WIRE_STYLE
    return {
        name: None if text is None else write_text(read_text(text, *kinds[name], style), kinds[name][0], style)
        for name, text in (row or {}).items()
    }


@pytest.mark.parametrize("form", FORMS)
def test_every_type_comes_back_as_it_was(instance: Instance, form: str, tmp_path: Path) -> None:
    declared = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    instance.play("pub", f"CREATE TABLE t ({declared})", "CREATE PUBLICATION p FOR TABLE t")
    for number, row in enumerate(ROWS):
        given = ", ".join("'" + text.replace("'", "''") + "'" for text in row.values())
        played = instance.play("pub", f"INSERT INTO t (id, {', '.join(row)}) VALUES ({number}, {given})")
        assert played == ["INSERT 0 1"]
    written = Written(instance, form, tmp_path)
    written.run()
    kinds = written.types("public", "t") or {}
    found = written.events()
    assert [each.kind for each in found] == [INSERT] * len(ROWS)
    for number, (event, row) in enumerate(zip(found, ROWS, strict=True)):
        wanted: dict[str, str | None] = {**dict.fromkeys(COLUMNS), **row, "id": str(number)}
        assert values(event.new, kinds) == values(wanted, kinds)


@pytest.mark.parametrize("form", FORMS)
def test_values_of_users_types_come_back_as_they_were(instance: Instance, form: str, tmp_path: Path) -> None:
    instance.play(
        "pub", "CREATE TYPE mood AS ENUM ('low', 'high')", "CREATE TYPE pair AS (n int2, m mood, t text[])",
        "CREATE DOMAIN pairs AS pair[]", "CREATE TABLE t (id int PRIMARY KEY, m mood, p pair, ps pairs)",
        "ALTER TABLE t REPLICA IDENTITY FULL", "CREATE PUBLICATION p FOR TABLE t",
        """INSERT INTO t VALUES (1, 'low', '(1,low,"{a,NULL}")', '{"(,high,)",NULL}'), (2, NULL, '(,,)', '{}')""",
        "INSERT INTO t VALUES (3)",
        "UPDATE t SET p.n = 7 WHERE id = 1", "ALTER TYPE mood RENAME VALUE 'low' TO 'least'",
        "UPDATE t SET m = 'least' WHERE id = 2",
    )  # fmt: skip
    written = Written(instance, form, tmp_path)
    written.run()
    instance.play("pub", "ALTER TYPE mood ADD VALUE 'low'")  # so that what is written can be read as of today
    kinds = written.types("public", "t") or {}
    found = [(values(each.new, kinds), values(each.old, kinds)) for each in written.events()]
    first = {"id": "1", "m": "low", "p": '(1,low,"{a,NULL}")', "ps": '{"(,high,)",NULL}'}
    second = {"id": "2", "m": None, "p": "(,,)", "ps": "{}"}
    assert found == [
        (first, {}), (second, {}), ({**dict.fromkeys(first), "id": "3"}, {}),
        ({**first, "p": '(7,low,"{a,NULL}")'}, first), ({**second, "m": "least"}, second),
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_what_a_subscription_would_receive(instance: Instance, form: str, tmp_path: Path) -> None:
    instance.play(
        "pub", "CREATE TABLE t (id bigint PRIMARY KEY, country text, total numeric(10,2), secret text)",
        "CREATE TABLE other (id int)",
        "CREATE PUBLICATION p FOR TABLE t (id, total) WHERE (id > 1000) WITH (publish = 'insert, update, delete')",
        "INSERT INTO t VALUES (1, 'DE', 1, 'x'), (1001, 'DE', 2.5, 'x'), (1002, 'AT', 3, 'x')",
        "BEGIN", "UPDATE t SET total = 4 WHERE id = 1001", "DELETE FROM t WHERE id = 1002", "COMMIT",
        "UPDATE t SET id = 2000 WHERE id = 1001", "UPDATE t SET id = 2 WHERE id = 2000", "INSERT INTO other VALUES (1)",
        "TRUNCATE t",
    )  # fmt: skip
    written = Written(instance, form, tmp_path)
    written.run()
    found = written.events()
    name = (None, None) if form == "parquet" else ("public", "t")
    assert {(each.schema, each.table) for each in found} == {name}
    shown = [(each.kind, each.new and dict(each.new), each.old and each.old["id"]) for each in found]
    if form == "wal2json":  # tells the key of each update
        shown[2] = (*shown[2][:2], None)
    assert shown == [
        (INSERT, {"id": "1001", "total": "2.50"}, None),
        (INSERT, {"id": "1002", "total": "3.00"}, None),
        (UPDATE, {"id": "1001", "total": "4.00"}, None),
        (DELETE, None, "1002"),
        (UPDATE, {"id": "2000", "total": "4.00"}, "1001"),
        (DELETE, None, "2000"),
    ]
    assert found[2].xid == found[3].xid != found[4].xid
    if form != "jsonl":  # there BEGIN and COMMIT have the time
        assert all(each.at and each.at > 1_600_000_000_000_000 for each in found)


@pytest.mark.parametrize("form", FORMS)
def test_truncate_and_tables_without_a_key(instance: Instance, form: str, tmp_path: Path) -> None:
    instance.play(
        "pub", "CREATE TABLE t (id int)", "CREATE TABLE f (a int, b text)", "ALTER TABLE f REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR ALL TABLES", "INSERT INTO t VALUES (1)", "INSERT INTO f VALUES (1, NULL)",
        "UPDATE f SET a = 2", "TRUNCATE t, f",
    )  # fmt: skip
    written = Written(instance, form, tmp_path)
    written.run()
    kinds = sorted((each.kind, str(each.new and dict(each.new)), str(each.old)) for each in written.events())
    assert kinds == [
        (INSERT, "{'a': '1', 'b': None}", "None"),
        (INSERT, "{'id': '1'}", "None"),
        (TRUNCATE, "None", "None"),
        (TRUNCATE, "None", "None"),
        (UPDATE, "{'a': '2', 'b': None}", "{'a': '1', 'b': None}"),
    ]


@pytest.mark.parametrize("form", dose(FORMS, 5))
def test_runs_go_on_exactly_behind_each_other(instance: Instance, form: str, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    written = Written(instance, form, tmp_path)
    for number in range(3):
        instance.play("pub", f"INSERT INTO t VALUES ({2 * number}), ({2 * number + 1})")
        written.run()
    written.run()
    assert [each.new and each.new["id"] for each in written.events()] == [str(number) for number in range(6)]


def _broken_off(written: Written, monkeypatch: pytest.MonkeyPatch, slot: str | None = None) -> None:
    """A run that is killed when all is written, and nothing confirmed."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pgrepl.replication.publisher.lake.publisher.LakeChangeStream.confirm", killed)
        with pytest.raises(KeyboardInterrupt):
            written.run(slot=slot)


@pytest.mark.parametrize("form", dose(FORMS, 5))
def test_what_was_written_but_not_confirmed_is_not_written_twice(
    instance: Instance, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.play("pub", "CREATE TABLE t (id int PRIMARY KEY, x text)", "CREATE PUBLICATION p FOR TABLE t")
    written = Written(instance, form, tmp_path)
    instance.play("pub", "INSERT INTO t VALUES (0)")
    written.run()
    instance.play("pub", "INSERT INTO t VALUES (1), (2)", "INSERT INTO t VALUES (3)")
    _broken_off(written, monkeypatch)
    if written.path.is_file():
        with written.path.open("ab") as file:
            file.write(b'{"op":"ins')  # the beginning of a line
    written.run()
    assert [each.new and each.new["id"] for each in written.events()] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("form", dose(FORMS, 5))
def test_the_slot_moves_on_with_each_portion(
    instance: Instance, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may write meanwhile, and what is written stays so when the run is told to stop."""
    monkeypatch.setattr("pgrepl.replication.change_writer.PORTION", 1)
    instance.play("pub", "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    written = Written(instance, form, tmp_path)
    written.run()
    for number in range(4):
        instance.play("pub", f"INSERT INTO t VALUES ({number})")
    slot = "SELECT confirmed_flush_lsn FROM pg_replication_slots"
    seen = [instance.play("pub", slot)]

    def stopped() -> bool:
        seen.append(instance.play("pub", slot))
        instance.play("pub", f"INSERT INTO t VALUES ({10 + len(seen)})")
        return len(seen) > 3

    written.run(stopped=stopped)
    assert len({str(each) for each in seen}) > 2
    assert instance.play("pub", slot) != seen[0]
    after = instance.play("pub", slot)
    ids = [each.new and each.new["id"] for each in written.events()]
    assert ids == ["0", "1", "2", "3"][: len(ids)] and len(ids) < 4
    monkeypatch.setattr(
        "pgrepl.replication.formats.sinks.LineSink.resume", lambda sink, start, owner, is_new: sink._file.seek(0, 2)
    )
    written.run()
    ids = [each.new and each.new["id"] for each in written.events()]
    assert ids[:4] == ["0", "1", "2", "3"] and len(set(ids)) == len(ids)
    assert instance.play("pub", slot) != after


def test_an_error_in_a_transaction_leaves_the_ones_before_it(instance: Instance, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t WHERE (10 / id > 0)")
    written = Written(instance, "jsonl", tmp_path)
    instance.play("pub", "INSERT INTO t VALUES (1)")
    written.run()
    size = written.path.stat().st_size
    instance.play("pub", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (0)")
    with pytest.raises(PgError, match="division by zero"):
        written.run()
    assert written.path.stat().st_size == size


def test_a_file_of_other_lines_is_not_touched(instance: Instance, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)")
    written = Written(instance, "debezium", tmp_path)
    written.path.write_text("important\n")
    with pytest.raises(PgError, match="has other lines than these changes"):
        written.run()
    assert written.path.read_text() == "important\n"
    assert instance.play("pub", "SELECT count(*) FROM pg_replication_slots") == ["0"]


@pytest.mark.parametrize("form", dose(FORMS, 5))
def test_a_new_slot_cuts_nothing_off(instance: Instance, form: str, tmp_path: Path) -> None:
    """What stands behind its beginning was written with another slot."""
    instance.play("pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION other FOR TABLE t WHERE (id > 5)")
    instance.play("pub", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)")
    written, other = Written(instance, form, tmp_path), Written(instance, form, tmp_path, "other")
    written.run()
    before = written.events()
    for name in ("fresh", "fresh"):  # the one that failed was not made
        with pytest.raises(PgError, match=r"has changes at LSN 0/.*, the new replication slot begins at 0/."):
            other.run(slot=name)
    assert written.events() == before != []
    assert instance.play("pub", "SELECT count(*) FROM pg_replication_slots") == ["1"]
    instance.play("pub", "INSERT INTO t VALUES (2)")
    other.run(None, slot="fresh")  # from now on: nothing stands there
    written.run()
    assert [each.new for each in written.events()] == [{"id": "1"}, {"id": "2"}]


@pytest.mark.parametrize("form", dose(FORMS, 5))
def test_a_slot_cuts_nothing_of_another_one(instance: Instance, form: str, tmp_path: Path) -> None:
    instance.play(
        "pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t",
        "SELECT pg_create_logical_replication_slot('y', 'pgoutput')", "INSERT INTO t VALUES (1)",
    )  # fmt: skip
    written = Written(instance, form, tmp_path)
    written.run(slot="x")
    with pytest.raises(PgError, match=r"has changes at LSN 0/.*, the replication slot stands at 0/.*") as caught:
        written.run(slot="y")
    assert caught.value.sqlstate == "55000"
    assert 'was written with replication slot "x" of catalog' in str(caught.value.report.detail)
    assert [each.new for each in written.events()] == [{"id": "1"}]

    instance.play("pub", "SELECT pg_replication_slot_advance('y', pg_current_wal_lsn())", "INSERT INTO t VALUES (2)")
    written.run(slot="y")  # it goes on behind the other one
    with pytest.raises(PgError, match="has changes at LSN") as caught:
        written.run(slot="x")
    assert 'was written with replication slot "y" of catalog' in str(caught.value.report.detail)
    assert [each.new for each in written.events()] == [{"id": "1"}, {"id": "2"}]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_after_a_crash_the_slot_s_own_changes_are_cut_in_any_file(
    instance: Instance, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one that another slot began, but not in a copy or in one of the same name, which may be anybody's."""
    instance.play("pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)")
    written = Written(instance, form, tmp_path)
    written.run(slot="x")
    instance.play(
        "pub", "SELECT pg_create_logical_replication_slot('y', 'pgoutput')", "INSERT INTO t VALUES (2)",
        "INSERT INTO t VALUES (3)",
    )  # fmt: skip
    _broken_off(written, monkeypatch, "y")
    assert [each.new for each in written.events()] == [{"id": "1"}, {"id": "2"}, {"id": "3"}]
    if form == "jsonl":
        moved = written.path.with_name("moved")
        written.path.rename(moved)
        written.path.write_bytes(moved.read_bytes())
        with pytest.raises(PgError, match="has changes at LSN"):
            written.run(slot="y")
        moved.replace(written.path)
    written.run(slot="y")
    assert [each.new for each in written.events()] == [{"id": "1"}, {"id": "2"}, {"id": "3"}]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_two_processes_do_not_write_to_one_output(instance: Instance, form: str, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)")
    written = Written(instance, form, tmp_path)
    written.run()
    handle = os.open(written.path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(PgError, match='another process writes changes to "') as caught:
            written.run(slot="new")
    finally:
        os.close(handle)
    assert caught.value.sqlstate == "55006"
    assert instance.play("pub", "SELECT count(*) FROM pg_replication_slots") == ["1"]


def test_where_a_new_slot_begins(instance: Instance, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t")
    (before,) = instance.play("pub", "INSERT INTO t VALUES (1)", "SELECT pg_current_wal_lsn()")[1:]
    instance.play("pub", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)")
    lsn = int(before.partition("/")[2], 16)
    past, now, until = (Written(instance, form, tmp_path) for form in ("jsonl", "wal2json", "debezium"))
    past.run(lsn)
    now.run(None)
    until.run(lsn, upto=lsn)
    assert [each.new for each in past.events()] == [{"id": "2"}, {"id": "3"}]
    assert now.events() == []
    assert [each.new for each in until.events()] == [{"id": "2"}]
    with pytest.raises(PgError, match="requested starting point 0/FFFF is ahead of the WAL flush position"):
        Written(instance, "parquet", tmp_path).run(0xFFFF)
    instance.play("pub", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    instance.play("pub", "VACUUM")
    with pytest.raises(PgError, match=f"requested starting point {before} is before the first change that is there"):
        Written(instance, "parquet", tmp_path).run(lsn)
    assert instance.play("pub", "SELECT count(*) FROM pg_replication_slots") == ["0"]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["INSERT INTO t VALUES (1)", CREATE, "INSERT INTO t VALUES (2)"], ["2"]),
        (["BEGIN", "INSERT INTO t VALUES (1)", CREATE, "INSERT INTO t VALUES (2)", "COMMIT",
          "INSERT INTO t VALUES (3)"], ["3"]),
        (["BEGIN", "CREATE TABLE u ()", CREATE, "INSERT INTO t VALUES (2)", "COMMIT"], ["2"]),
        ([CREATE, "INSERT INTO t VALUES (1)", "ALTER PUBLICATION p RENAME TO q", "INSERT INTO t VALUES (2)",
          "ALTER PUBLICATION q RENAME TO p", "INSERT INTO t VALUES (3)"], ["3"]),
        ([CREATE, "INSERT INTO t VALUES (1)", "DROP PUBLICATION p", CREATE, "INSERT INTO t VALUES (2)"], ["2"]),
        ([CREATE, "INSERT INTO t VALUES (1)", "ALTER PUBLICATION p SET (publish = 'insert')",
          "INSERT INTO t VALUES (2)"], ["1", "2"]),
    ],
)  # fmt: skip
def test_a_new_slot_begins_where_the_publication_does(
    instance: Instance, tmp_path: Path, statements: list[str], expected: list[str]
) -> None:
    instance.play("pub", "CREATE TABLE t (id int)")
    instance.play("pub", *statements)
    written = Written(instance, "jsonl", tmp_path)
    written.run(0)
    assert [each.new for each in written.events()] == [{"id": each} for each in expected]


def test_a_run_whose_first_changes_cannot_be_sent_leaves_no_slot(instance: Instance, tmp_path: Path) -> None:
    instance.play(
        "pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t WHERE (10 / id > 0)",
        "INSERT INTO t VALUES (0)",
    )  # fmt: skip
    written = Written(instance, "jsonl", tmp_path)
    with pytest.raises(PgError, match="division by zero"):
        written.run(0)
    assert instance.play("pub", "SELECT count(*) FROM pg_replication_slots") == ["0"]
    written.run(None)
    instance.play("pub", "INSERT INTO t VALUES (0)")
    with pytest.raises(PgError, match="division by zero"):
        written.run(None)
    assert instance.play("pub", "SELECT count(*) FROM pg_replication_slots") == ["1"]  # it has been confirmed


def test_a_prepared_transaction_is_written_when_it_is_committed(instance: Instance, tmp_path: Path) -> None:
    instance.play("postgres", "ALTER SYSTEM SET max_prepared_transactions = 10")
    answers = instance.play(
        "pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t", "BEGIN", "INSERT INTO t VALUES (1)",
        "PREPARE TRANSACTION 'g'",
    )  # fmt: skip
    assert answers[-1] == "PREPARE TRANSACTION"
    written = Written(instance, "jsonl", tmp_path)
    written.run()
    assert written.events() == []
    instance.play("pub", "COMMIT PREPARED 'g'")
    written.run()
    assert [each.new for each in written.events()] == [{"id": "1"}]


class _Failing:
    """A writer whose disk is full in the second transaction."""

    def __init__(self) -> None:
        self.count = 0

    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        self.count += 1
        yield b'{"op":"begin"}\n'
        if self.count == 2:
            raise OSError(28, "No space left on device")

    def position(self, line: bytes) -> int | None:
        return 0


def test_a_full_disk_is_an_error_and_the_slot_stays(instance: Instance, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)")
    instance.play("pub", "INSERT INTO t VALUES (2)")
    written = Written(instance, "jsonl", tmp_path)
    with pytest.raises(PgError) as caught:
        written.run(writer=_Failing())
    assert caught.value.sqlstate == "53100"
    written.run()
    assert [each.new for each in written.events()] == [{"id": "1"}, {"id": "2"}]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_full_disk_leaves_what_was_written_before(form: str, tmp_path: Path) -> None:
    def found() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in [out, *out.rglob("*")] if path.is_file()}

    ran, out = partial(pgrepl, cwd=tmp_path), tmp_path / "out"
    ran("-q", "-c", "CREATE TABLE t (id int PRIMARY KEY, s text)", "-c", "CREATE PUBLICATION p FOR TABLE t")
    arguments = ("changes", "p", "--from-lsn", "0/0", "--format", form, "-o", "out")
    ran("-q", "-c", "INSERT INTO t VALUES (0, 'first')")
    assert ran(*arguments).returncode == 0
    before = found()
    ran("-q", "-c", "INSERT INTO t SELECT g, md5(g::text) || md5('x' || g) FROM generate_series(1, 40000) g")
    most = 2_000_000  # bytes of a file
    limited = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
    with started(*arguments, cwd=tmp_path, preexec_fn=limited) as program:
        assert program.wait(PATIENCE) == 1
        assert program.stderr is not None and 'could not write to "out": File too large' in program.stderr.read()
    assert found() == before


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_as_a_person_runs_it(tmp_path: Path) -> None:
    ran = partial(pgrepl, cwd=tmp_path)
    assert 'could not open catalog "catalog.db"' in ran("changes", "p").stderr
    assert not (tmp_path / "catalog.db").exists()
    ran(
        "-q", "-c", "CREATE TABLE t (id int PRIMARY KEY)", "-c", "CREATE PUBLICATION p FOR TABLE t",
        "-c", "INSERT INTO t VALUES (1)",
    )  # fmt: skip
    first = ran("changes", "p", "--from-lsn", "0/0")
    assert first.stderr.startswith('NOTICE:  created replication slot "changes_p" at ')
    assert [json.loads(line)["op"] for line in first.stdout.splitlines()] == [BEGIN, INSERT, COMMIT]
    assert (ran("changes", "p").stdout, first.returncode) == ("", 0)
    wrong = ran("changes", "nosuch")
    assert (wrong.stderr, wrong.returncode) == ('ERROR:  publication "nosuch" does not exist\n', 1)
    assert ran("changes", "p", "--format", "parquet").returncode == 2
    assert ran("changes", "p", "-o", "no/such/file").stderr == (
        'ERROR:  could not open file "no/such/file" for writing: No such file or directory\n'
    )


def test_a_follower_waits_for_the_next_commit_and_no_interval(instance: Instance, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t")
    session, over = open_session(instance.catalog, "pub"), Event()
    with (tmp_path / "out").open("w+b") as file, ThreadPoolExecutor(1) as pool:
        sink = LineSink(line_writer("jsonl", SourceFacts("pub", WIRE_STYLE, lambda: 0)), file, str(tmp_path / "out"))
        out = ChangeWriter(session, ["p"], "slot", sink)
        out.start(None)
        out.round(None, over.is_set)
        assert not out.wait(0.0, over)
        waits = pool.submit(out.wait, 3 * PATIENCE, over)
        instance.play("pub", "INSERT INTO t VALUES (1)")
        assert waits.result(PATIENCE)
        out.round(None, over.is_set)
        waits = pool.submit(out.wait, 3 * PATIENCE, over)
        over.set()
        out.wake()
        assert not waits.result(PATIENCE)
        out.close()
        session.close()
    assert (tmp_path / "out").read_text().count('"op":"insert"') == 1


def test_it_follows_until_ctrl_c(tmp_path: Path) -> None:
    ran = partial(pgrepl, cwd=tmp_path)
    ran("-q", "-c", "CREATE TABLE t (id int)", "-c", "CREATE PUBLICATION p FOR TABLE t")
    out = tmp_path / "out.json"
    arguments = ("changes", "p", "--format", "debezium", "--output", "out.json", "--follow")
    with started(*arguments, cwd=tmp_path) as program:
        eventually(out.exists)
        for number in range(2):
            ran("-q", "-c", f"INSERT INTO t VALUES ({number})")
            eventually(lambda count=number + 1: out.read_text().count("\n") == count)
        busy = ran("changes", "p")
        assert 'replication slot "changes_p" is active for PID' in busy.stderr and busy.returncode == 1
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
    rows = [json.loads(line)["after"] for line in out.read_text().splitlines()]
    assert rows == [{"id": 0}, {"id": 1}]
