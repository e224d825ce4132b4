"""Triggers at both ends of a subscription, on a real server and here: which fire, with which rows, and what they do."""

from __future__ import annotations

from random import Random

import pytest

from tests.harness.dose import dose
from tests.postgres.both_replicas import Both

LOG = (
    "CREATE TABLE log (id serial, what text)",
    "CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$ begin insert into public.log (what) values ("
    "concat_ws(' ', tg_name, tg_when, tg_level, tg_op, tg_table_name, old, new, (select count(*) from public.t)));"
    " return coalesce(new, old); end $$",
)
FUNCTIONS = (
    "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ begin if tg_op = 'DELETE' then return old; end if;"
    " new.b := coalesce(new.b, '') || tg_argv[0]; return new; end $$",
    "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ begin if coalesce(new.a, old.a) % 4 = 0 then"
    " return null; end if; return coalesce(new, old); end $$",
    "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ begin if coalesce(new.a, old.a) = 13 then"
    " raise exception 'no 13' using detail = 'ever'; end if; return coalesce(new, old); end $$",
)


def test_a_copy_and_what_follows_it(both: Both) -> None:
    both.each("CREATE TABLE t (a int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (a * 2) STORED)")
    both.sub(*LOG, *FUNCTIONS)
    both.pub("CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (4, 'z')")
    for name, what, enabled in (
        ("r", "BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION logs()", "REPLICA"),
        ("s", "AFTER INSERT OR UPDATE OR TRUNCATE ON t EXECUTE FUNCTION logs()", "ALWAYS"),
        ("o", "AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION logs()", ""),
        ("k", "BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION skip()", "REPLICA"),
        (
            "u",
            "AFTER UPDATE OF b ON t FOR EACH ROW WHEN (old.b IS DISTINCT FROM new.b) EXECUTE FUNCTION logs()",
            "ALWAYS",
        ),
    ):
        both.sub(f"CREATE TRIGGER {name} {what}", f"ALTER TABLE t ENABLE {enabled} TRIGGER {name}")
    assert both.subscribe() == []
    both.pub("INSERT INTO t VALUES (5, 'n')", "UPDATE t SET b = 'u' WHERE a = 1", "UPDATE t SET b = b")
    both.pub("DELETE FROM t WHERE a = 2", "UPDATE t SET a = 7 WHERE a = 1")
    assert both.catch_up() == []
    both.same()
    both.pub("TRUNCATE t")
    assert both.catch_up() == []
    both.same()


def test_an_error_of_a_trigger_stops_the_subscription(both: Both) -> None:
    both.each("CREATE TABLE t (a int PRIMARY KEY, b text)")
    both.sub(*FUNCTIONS, "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fails()")
    both.sub("ALTER TABLE t ENABLE ALWAYS TRIGGER f")
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    assert both.subscribe() == []
    both.pub("INSERT INTO t VALUES (12)", "INSERT INTO t VALUES (13)")
    (failure,) = both.catch_up()
    assert (failure.message, failure.detail) == ("no 13", "ever")
    assert both.rows("SELECT a FROM t") == [("12",)]


def test_an_error_of_a_trigger_during_a_copy_tells_where_it_happened(both: Both) -> None:
    both.each("CREATE TABLE t (a int PRIMARY KEY, b text)")
    both.sub(*FUNCTIONS, "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fails()")
    both.sub("ALTER TABLE t ENABLE ALWAYS TRIGGER f")
    both.pub("CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (12, 'x'), (13, 'y')")
    (failure,) = both.subscribe()
    assert failure.context == ('PL/pgSQL function public.fails() line 1 at RAISE\nCOPY t, line 2: "13\ty"')


def test_foreign_keys_whose_triggers_are_for_replicas(both: Both) -> None:
    both.each("CREATE TABLE k (id int PRIMARY KEY)", "CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES k)")
    enabled = (
        "DO $$ declare x record; begin for x in select tgrelid::regclass, tgname from pg_trigger loop"
        " execute format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', x.tgrelid, x.tgname); end loop; end $$"
    )
    both.sub(enabled)
    both.pub("CREATE PUBLICATION p FOR TABLE k, t", "INSERT INTO k VALUES (1), (2)")
    assert both.subscribe() == []
    both.pub("INSERT INTO t VALUES (1, 1)", "UPDATE t SET b = 2")
    assert both.catch_up() == []
    both.pub("ALTER TABLE t DROP CONSTRAINT t_b_fkey", "DELETE FROM k WHERE id = 2")
    (failure,) = both.catch_up()
    assert (failure.message, failure.detail) == (
        'update or delete on table "k" violates foreign key constraint "t_b_fkey" on table "t"',
        'Key (id)=(2) is still referenced from table "t".',
    )


@pytest.mark.parametrize("seed", dose(range(1, 30), 30))
def test_random_workloads_with_triggers_at_both_ends(seed: int, both: Both) -> None:
    random = Random(seed)
    both.each("CREATE TABLE t (a int PRIMARY KEY, b text)", *LOG, *FUNCTIONS[:2])
    both.pub("CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t SELECT i, 'c' FROM generate_series(1, 3) i")
    for number in range(random.randint(2, 5)):
        name = f"{random.choice('abz')}{number}"
        events = " OR ".join(random.sample(["INSERT", "UPDATE", "DELETE"], random.randint(1, 3)))
        level = random.choice(("FOR EACH ROW", "FOR EACH ROW", "FOR EACH STATEMENT"))
        when = random.choice(("BEFORE", "AFTER"))
        called = "logs()"
        if level == "FOR EACH ROW":
            called = random.choice(("logs()", f"change('{number}')", "skip()"))
        both.sub(f"CREATE TRIGGER {name} {when} {events} ON t {level} EXECUTE FUNCTION {called}")
        both.sub(f"ALTER TABLE t ENABLE {random.choice(('REPLICA', 'ALWAYS', ''))} TRIGGER {name}")
    both.pub("CREATE TRIGGER c BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change('p')")
    assert both.subscribe() == []
    for _ in range(12):
        a, b = random.randint(1, 20), random.randint(1, 20)
        both.pub(
            random.choice(
                (
                    f"INSERT INTO t SELECT {a}, 'i' WHERE NOT EXISTS (SELECT FROM t WHERE a = {a})",
                    f"UPDATE t SET b = 'u{b}' WHERE a = {a}",
                    f"DELETE FROM t WHERE a = {a}",
                    f"UPDATE t SET a = {b} WHERE a = {a} AND NOT EXISTS (SELECT FROM t WHERE a = {b})",
                )
            )
        )
    both.catch_up()
    both.same()
