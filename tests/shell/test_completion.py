"""What Tab offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.shell.backslash.helping import topics
from pgrepl.shell.connection import Connection, ConnectTarget
from pgrepl.shell.prompt.completion import STATEMENTS, completions, following
from pgrepl.shell.shell import Shell
from pgrepl.statements.replication import subscription_parts

SCRIPT = """
create schema sales;
create table orders (id int primary key, total numeric, "Odd" text);
create table sales.items (item_id int, price numeric);
create view cheap as select id from orders;
create table lines (order_id int references orders, "No" int, total numeric);
create publication pub_a for table orders;
create publication pub_b for all tables;
create role ann login;
create database shop;
create type mood as enum ('sad', 'happy');
create type sales.pair as (a int, b int);
create domain positive as int check (value > 0);
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell()
    shell.connection = Connection(
        ConnectTarget(str(tmp_path_factory.mktemp("completion") / "catalog.db")), lambda report: None
    )
    for statement in SCRIPT.strip().split("\n"):
        list(shell.connection.run(statement))
    yield shell
    shell.connection.close()


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("cr", ["create"]),
        ("CR", ["CREATE"]),
        ("select 1; cr", ["create"]),
        ("alter pub", ["publication"]),
        ("alter publication ", ["pub_a", "pub_b"]),
        ("alter publication pub_a ", ["ADD", "DROP", "OWNER TO", "RENAME TO", "SET"]),
        ("alter publication pub_a set (", ["publish", "publish_generated_columns", "publish_via_partition_root"]),
        ("alter publication pub_a add tables in schema s", ["sales"]),
        ("ALTER PUBLICATION pub_a ADD TABLE o", ["only", "orders"]),
        ("create publication p for ", ["ALL SEQUENCES", "ALL TABLES", "TABLE", "TABLES IN SCHEMA"]),
        ("create publication p for table orders (", ['"Odd"', "id", "total"]),
        ("create publication p for table orders where (i", ["id"]),
        ("create publication p for table sales.", ["sales.items"]),
        ("create publication p for all tables with (publish = ", ["'insert, update, delete, truncate'"]),
        ("create subscription s ", ["CONNECTION"]),
        ("copy o", ["orders"]),
        ("create do", ["domain"]),
        ("drop type ", ["IF EXISTS", "mood"]),
        ("drop type sales.", ["sales.pair"]),
        ("alter type mood rename ", ["ATTRIBUTE", "TO", "VALUE"]),
        ("alter type mood add value 'x' ", ["AFTER", "BEFORE"]),
        ("alter domain ", ["positive"]),
        ("alter domain positive add constraint c ", ["CHECK (", "NOT NULL"]),
        ("create domain d as mo", ["money", "mood"]),
        ("comment on domain ", ["positive"]),
        ("ca", ["call"]),
        ("copy orders ", ["FROM", "TO"]),
        ("copy orders from ", ["PROGRAM", "STDIN"]),
        ("copy orders from 'x' ", ["WHERE", "WITH ("]),
        ("copy orders to stdout with (form", ["format"]),
        ("copy orders to 'x' with (format ", ["csv", "parquet", "text"]),
        ("copy orders from 'x' with (format csv, he", ["header"]),
        ("create subscription s connection 'dbname=x' ", ["PUBLICATION"]),
        ("create subscription s connection 'dbname=x' publication pub_", ["pub_a", "pub_b"]),
        ("create subscription s connection 'x' publication p with (st", ["streaming"]),
        ("create subscription s connection 'x' publication p with (streaming = ", ["off", "on", "parallel"]),
        ("alter subscription s ref", ["refresh publication", "refresh sequences"]),
        ("create subscription s connection 'x' publication p with (", sorted(subscription_parts.CREATE)),
        ("create subscription s connection 'x' publication p with (enabled, ", sorted(subscription_parts.CREATE)),
        ("alter subscription s set (", sorted(subscription_parts.SET)),
        ("alter subscription s set (binary, ", sorted(subscription_parts.SET)),
        ("alter subscription s add publication p with (", sorted(subscription_parts.PUBLICATION)),
        ("alter subscription s refresh publication with (", sorted(subscription_parts.REFRESH)),
        ("alter subscription s skip (", sorted(subscription_parts.SKIP)),
        ("drop table ord", ["orders"]),
        ("drop view ", ["IF EXISTS", "cheap"]),
        ("create subscription s server f publication p with (schema_changes = ", ["all", "columns", "none", "tables"]),
        ("alter subscription s set (schema_changes = t", ["tables"]),
        ("alter table orders replica identity ", ["DEFAULT", "FULL", "NOTHING", "USING INDEX"]),
        ("alter table orders owner to a", ["ann"]),
        ("grant select on orders to an", ["ann"]),
        ("select * from cheap", ["cheap"]),
        ("select * from pg_publication_t", ["pg_publication_tables"]),
        ("select id from orders where to", ["total"]),
        ("select id from orders where id = 1 and \"O", ['"Odd"']),
        ("select id from orders as o where o.t", ["o.total"]),
        ("select o.id from orders o, sales.items i where i.", ["i.item_id", "i.price"]),
        ("update orders u set total = 1 where u.i", ["u.id"]),
        ("select * from orders o join lines l on ", [
            '"No"', '"Odd"', "id", "l.", "o.", "o.id = l.order_id", "order_id", "total",
        ]),
        ("create view v as select * from orders o join sales.items i on i", ["i.", "id", "item_id"]),
        ("explain select * from orders o join cheap on ", ['"Odd"', "cheap.", "id", "o.", "o.id = cheap.id", "total"]),
        ("select * from orders o join lines on true join cheap on o.id", ["o.id", "o.id = cheap.id"]),
        ("merge into orders o using cheap c on o", ['"Odd"', "o.", "o.id = c.id"]),
        ("select * from lines l join orders using (", ["total"]),
        ("select * from orders join cheap using (id, ", ["id"]),
        ("select * from orders a join orders b on a.id = b.id and b.t", ["b.total"]),
        ("select * from sales.items i join cheap c on c", ["c."]),
        ("select to_cha", ["to_char("]),
        ("select id from orders where length", ["length("]),
        ("select (select ab", ["abbrev(", "abs("]),
        ("select 1::big", ["bigint"]),
        ("select cast(1 as doub", ["double precision"]),
        ("set client_min_messages to w", ["warning"]),
        ("set default_transaction_read_only = ", ["DEFAULT", "off", "on"]),
        ("alter system set wal_sender_t", ["wal_sender_timeout"]),
        ("insert into orders (",['"Odd"', "id", "total"]),
        ("set client_min", ["client_min_messages"]),
        ("show server_version_", ["server_version_num"]),
        ("set role ", ["NONE", "ann", "pg_checkpoint", "pg_create_subscription", "pg_database_owner",
            "pg_execute_server_program", "pg_maintain", "pg_monitor", "pg_read_all_data", "pg_read_all_settings",
            "pg_read_all_stats", "pg_read_server_files", "pg_signal_backend", "pg_stat_scan_tables",
            "pg_use_reserved_connections", "pg_write_all_data", "pg_write_server_files", "postgres"]),
        ("begin isolation level r", ["read committed", "repeatable read"]),
        # queries: what may follow depends on the clause, and on whether an operand stands there
        ("select * from orders o ", ["CROSS JOIN", "GROUP BY", "JOIN", "LEFT JOIN", "LIMIT", "ORDER BY", "WHERE"]),
        ("select * from orders o left ", ["JOIN", "OUTER JOIN"]),
        ("select * from orders o join lines l ", ["ON", "USING ("]),
        ("select * from orders o join lines l on o.id = l.order_id an", ["and"]),
        ("select * from orders o, li", ["lines"]),
        ("select * from orders where id = 1 ", ["AND", "GROUP BY", "LIMIT", "OR", "ORDER BY"]),
        ("select * from orders where id is not ", ["DISTINCT FROM", "FALSE", "NULL", "TRUE", "UNKNOWN"]),
        ("select * from orders where exists (", ["SELECT", "VALUES (", "WITH"]),
        ("select * from orders order by id de", ["desc"]),
        ("select count(*) filter (", ["WHERE"]),
        ("select sum(total) over (", ["ORDER BY", "PARTITION BY"]),
        ("select cast", ["cast("]),
        ("select cas", ["case", "cash_words(", "cast("]),
        ("explain select * from orders wh", ["where"]),
        ("copy (select * from orders wh", ["where"]),
        ("create view v as sel", ["select"]),
        ("select * from generate_ser", ["generate_series("]),
        ("select \"id", []),
        ("select 1 -- fr", []),
        ("select 1 /* fr", []),
        ("select sales.items.p", []),
        ("select * from sales.items where sales.items.p", ["sales.items.price"]),
        ("insert into orders (id, ", ['"Odd"', "total"]),
        ("insert into orders (id) ", ["OVERRIDING", "SELECT", "TABLE", "VALUES (", "WITH"]),
        ("insert into orders values (1) on conflict (id) do update set total = excluded.t", ["excluded.total"]),
        ("update orders set total ", ["="]),
        ("update orders set total = 1 wh", ["where"]),
        ("delete from orders ", ["RETURNING", "USING", "WHERE"]),
        ("with x as (select id, total as t from orders) select * from x where x.", ["x.id", "x.t"]),
        ("with x (a, b) as (values (1, 2)) select * from x", ["x"]),
        ("select * from (select o.*, 1 as one from orders o) q where q.o", ['q."Odd"', "q.one"]),
        ("select 1::regc", ["regclass", "regcollation", "regconfig"]),
        # types, options and their values
        ("alter table orders add column x bigi", ["bigint"]),
        ("create table t (a int, b tex", ["text"]),
        ("create table t (a int primary ", ["KEY"]),
        ("alter subscription s set (streaming = ", ["off", "on", "parallel"]),
        ("alter publication p set (publish_via_partition_root = ", ["false", "true"]),
        ("copy orders from 'x' (format ", ["csv", "parquet", "text"]),
        ("copy orders from 'x' with (force_null (", ['"Odd"', "id", "total"]),
        ("explain (format ", ["JSON", "TEXT", "XML", "YAML"]),
        ("set search_path to sa", ["sales"]),
        ("set timezone to 'Europe/Ber", ["'Europe/Berlin'"]),
        ("alter system set wal_level to ", ["DEFAULT", "logical", "minimal", "replica"]),
        ("comment on column orders.t", ["orders.total"]),
        ("\\copy orders (i", ["id"]),
        ("\\cop", ["\\copy", "\\copyright"]),
        ("\\dt O", ["orders"]),
        ("\\encoding KO", ["KOI8R", "KOI8U"]),
        ("\\h cr", ["CREATE"]),
        ("\\dRp", ["\\dRp", "\\dRp+"]),
        ("\\pse", ["\\pset"]),
        ("\\pset for", ["format"]),
        ("\\pset format u", ["unaligned"]),
        ("\\pset expanded ", ["auto", "off", "on"]),
        ("\\set VERB", ["VERBOSITY"]),
        ("\\set VERBOSITY t", ["terse"]),
        ("\\set ON_ERROR_STOP ", ["off", "on"]),
        ("\\c sh", ["shop"]),
        ("\\c shop an", ["ann"]),
        ("\\d chea", ["cheap"]),
        ("\\dRp pub", ["pub_a", "pub_b"]),
        ("\\x a", ["auto"]),
        ("\\h alter sub", ["SUBSCRIPTION"]),
        ("\\h drop pu", ["PUBLICATION"]),
        ("\\? v", ["variables"]),
        ("select 1 \\gs", ["\\gset"]),
        ("select :AUTOC", [":AUTOCOMMIT"]),
        ("select :'DBN", []),
        ("select 'text \\d", []),
        ("create table ", []),
    ],
)  # fmt: skip
def test_what_may_follow(shell: Shell, before: str, offered: list[str]) -> None:
    assert completions(shell, before)[1] == offered


def test_every_command_that_has_help_is_offered() -> None:
    """By its first word, and what is made, changed or dropped by its kind."""
    offered = {word.split()[0] for word in STATEMENTS}
    assert offered == {topic.command.split()[0] for topic in topics()}
    for verb in ("ALTER", "CREATE", "DROP"):
        kinds = {topic.command.removeprefix(f"{verb} ") for topic in topics() if topic.command.startswith(f"{verb} ")}
        assert kinds - {"TABLE AS", "OWNED"} - set(following([verb]) or ()) == set()


def test_columns_of_a_later_release_are_not_offered(shell: Shell) -> None:
    assert completions(shell, "select subr", after=" from pg_subscription")[1] == ["subrunasowner"]
    assert completions(shell, "comment on column pg_publication.puba", after="")[1] == ["pg_publication.puballtables"]


def test_what_stands_behind_the_cursor_counts(shell: Shell) -> None:
    assert completions(shell, "select l.", after=" from lines l where true")[1] == ['l."No"', "l.order_id", "l.total"]
    assert completions(shell, "select to", after=" from orders; select 1")[1] == ["total"]


def test_letters_in_their_order_are_enough_in_a_popup(shell: Shell) -> None:
    found = completions(shell, "select * from o join lines l on true where l.oid", after="", fuzzily=True)[1]
    assert found[0] == "l.order_id"
    assert completions(shell, "alter publication pba", fuzzily=True)[1] == ["pub_a"]
    assert completions(shell, "select ttl", after=" from orders", fuzzily=True)[1][0] == "total"
    assert completions(shell, "select totl", after=" from orders")[1] == []
    assert completions(shell, "select * from orders whr", fuzzily=True)[1] == ["where"]
    assert completions(shell, "select toch", fuzzily=True)[1][0] == "to_char("


def test_prepared_statements_cursors_and_savepoints(shell: Shell) -> None:
    assert shell.connection is not None
    begun = ("prepare found as select 1", "begin", "declare c cursor for select 1", "savepoint s1")
    for statement in begun:
        list(shell.connection.run(statement))
    assert completions(shell, "execute ")[1] == ["found"]
    assert completions(shell, "fetch next from ")[1] == ["c"]
    assert completions(shell, "rollback to ")[1] == ["SAVEPOINT", "s1"]
    for statement in ("rollback", "deallocate all"):
        list(shell.connection.run(statement))


@pytest.mark.parametrize("fuzzily", [False, True])
def test_no_text_makes_it_fail(shell: Shell, fuzzily: bool) -> None:
    """Cut anywhere, with quotes and parentheses of all kinds."""
    text = """with x (a) as (select "Od""d", e'\\'' from orders o join lines l using (id)) select x.*,
    case when a[1] is not null then cast(a as int)::text end, count(*) filter (where a) over (order by a) from x,
    (values (1)) v (b), lateral f() where exists (select) -- c
    insert into sales.items (a, b) values (1, 2) on conflict (a) do update set b = excluded.b;
    \\copy (select 1) to 'x y' $$ ; ) )) .. "a".b. ::: :'x' \\i 'a"""
    for at in range(len(text)):
        for words in (text[:at], text[at:], text[at : at + 20] + text[:at]):
            completions(shell, words, after=text[at:], fuzzily=fuzzily)


def test_files_of_copy(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "orders.csv").touch()
    monkeypatch.chdir(tmp_path)
    assert completions(shell, "copy orders from '") == ("'", ["'folder/", "'orders.csv'"])
    assert completions(shell, "\\copy orders from 'o") == ("'o", ["'orders.csv'"])
    assert completions(shell, "copy orders to 'f") == ("'f", ["'folder/"])
    assert completions(shell, "\\copy orders from or") == ("or", ["orders.csv"])
    assert completions(shell, "\\copy ord") == ("ord", ["orders"])


def test_files(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("one.sql", "two.sql", ".hidden", "sub/three.sql"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert completions(shell, "\\i ") == ("", ["one.sql", "sub/", "two.sql"])
    assert completions(shell, "\\i o") == ("o", ["one.sql"])
    assert completions(shell, "\\i sub/t") == ("sub/t", ["sub/three.sql"])
    assert completions(shell, "\\i .h") == (".h", [".hidden"])
    (tmp_path / "it's here.sql").touch()
    assert completions(shell, "\\i it") == ("it", ["'it''s here.sql'"])
    assert completions(shell, "\\i 'it''s h") == ("'it''s h", ["'it''s here.sql'"])
    assert completions(shell, "\\cd ") == ("", ["sub/"])
    assert completions(shell, f"\\o {tmp_path}/t") == (f"{tmp_path}/t", [f"{tmp_path}/two.sql"])


@pytest.mark.parametrize(
    ("case", "typed", "offered"),
    [
        ("upper", "cr", "CREATE"),
        ("lower", "CR", "create"),
        ("preserve-upper", "cr", "create"),
        ("preserve-upper", "alter publication pub_a d", "drop"),
        ("preserve-lower", "CR", "CREATE"),
    ],
)
def test_key_words_come_in_the_case_that_is_wanted(shell: Shell, case: str, typed: str, offered: str) -> None:
    shell.variables.set("COMP_KEYWORD_CASE", case)
    try:
        assert completions(shell, typed)[1] == [offered]
    finally:
        shell.variables.set("COMP_KEYWORD_CASE", None)


def test_the_lines_before_count(shell: Shell) -> None:
    assert completions(shell, "add ta", "alter publication pub_a")[1] == ["table", "tables in schema"]
    assert completions(shell, "alter publication pub_a\n  add ta")[1] == ["table", "tables in schema"]


def test_a_failed_transaction_offers_no_names_and_is_not_touched(shell: Shell) -> None:
    from pgrepl.ground.errors import PgError

    assert shell.connection is not None
    list(shell.connection.run("begin"))
    with pytest.raises(PgError):
        list(shell.connection.run("selec"))
    assert completions(shell, "alter publication ") == ("", [])
    assert shell.connection.status == "failed"
    list(shell.connection.run("rollback"))


def test_looking_up_names_leaves_no_transaction_open(shell: Shell) -> None:
    assert shell.connection is not None
    assert completions(shell, "alter publication ")[1] == ["pub_a", "pub_b"]
    assert shell.connection.status == "idle"
