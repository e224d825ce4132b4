"""`pgrepl sync SUBSCRIPTION --again TABLE`: one table is emptied and copied anew."""

from __future__ import annotations

from tests.harness.forked import pgrepl
from tests.harness.pair import Pair

HERE = "host=localhost dbname=pub"


def again(pair: Pair, *options: str) -> tuple[int, str]:
    done = pgrepl("sync", "--catalog", str(pair.folder / "catalog.db"), "-d", "sub", *options)
    return done.returncode, done.stdout + done.stderr


def test_one_table_is_copied_anew_and_the_others_stay(pair: Pair) -> None:
    pub, sub = pair.pub, pair.sub
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (a int)")
    pub("INSERT INTO t VALUES (1, 'x'), (2, 'y'); INSERT INTO u VALUES (7)", "CREATE PUBLICATION p FOR TABLE t, u")
    sub(f"CREATE SUBSCRIPTION s CONNECTION '{HERE}' PUBLICATION p")
    assert pair.sub.catch_up() == []
    sub("DELETE FROM t WHERE a = 1; INSERT INTO t VALUES (3, 'of another'); INSERT INTO u VALUES (8)")
    pub("UPDATE t SET b = 'changed' WHERE a = 2")
    code, said = again(pair, "s", "--again", "public.t")
    assert code == 0 and said.startswith('subscription "s": table public.t copied, 2 rows\n')
    assert sub("SELECT * FROM t ORDER BY a") == [("1", "x"), ("2", "changed")]
    assert sub("SELECT * FROM u ORDER BY a") == [("7",), ("8",)]
    assert sub("SELECT DISTINCT srsubstate FROM pg_subscription_rel") == [("r",)]
    pub("INSERT INTO t VALUES (4, 'z')")
    assert pair.sub.catch_up() == []
    assert sub("SELECT count(*) FROM t") == [("3",)]


def test_a_table_of_no_subscription_is_refused(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub(f"CREATE SUBSCRIPTION s CONNECTION '{HERE}' PUBLICATION p")
    code, said = again(pair, "s", "--again", "nosuch")
    assert code != 0 and 'subscription "s" has no table "nosuch"' in said
    assert again(pair, "--again", "t")[0] == 2
