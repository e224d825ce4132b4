"""schema_changes = all with a real server: what its event triggers tell is followed exactly, in order of the stream."""

from __future__ import annotations

from random import Random

import pytest

from pgrepl.replication.publisher.postgres.ddl_trigger import SCRIPT
from pgrepl.replication.wire import messages
from tests.harness.database import by_message
from tests.harness.definition_workload import TABLE, DefinitionWorkload, differs
from tests.harness.dose import dose
from tests.postgres.served import Served
from tests.postgres.test_server_faults import apply


def following(served: Served, table: str = TABLE, publication: str = "FOR ALL TABLES", script: str = SCRIPT) -> None:
    served.both(table)
    served.pub("INSERT INTO t (id) VALUES (1), (2)")
    for statement in (script, script):
        if statement:
            served.pub(statement)
    served.pub(f"CREATE PUBLICATION p {publication}")
    served.subscribe(options="schema_changes = all")


def same(served: Served) -> None:
    assert served.catch_up() == []
    assert differs(served.pub, served.sub) == ""


def random_definitions(served: Served, seed: int, steps: int) -> None:
    following(served)
    random = Random(seed)
    workload = DefinitionWorkload(served.pub, random)
    for _ in range(steps):
        workload.work(random.randint(1, 8))
        same(served)
    assert not [text for text in served.log.messages("WARNING") if "does not follow" in text]


@pytest.mark.parametrize("seed", dose(range(3), 3))
def test_random_definitions_arrive(served: Served, seed: int) -> None:
    if seed:
        by_message(served.sub)
    random_definitions(served, seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_definitions_arrive(served: Served, seed: int) -> None:
    random_definitions(served, seed, 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_in_the_middle(served: Served, seed: int) -> None:
    """Each change of a definition is done once, also if a worker is killed before or behind its commit."""
    following(served)
    random = Random(1000 + seed)
    workload = DefinitionWorkload(served.pub, random)
    for _ in range(2):
        workload.work(3)
        served.pub(workload.row())
        name = random.choice(("apply.received", "apply.portion", "apply.origin", "apply.settled", "apply.committed"))
        apply(served, name)
    same(served)


def test_names_and_drops_of_tables(served: Served) -> None:
    following(served, TABLE + "; CREATE TABLE other (k int PRIMARY KEY); CREATE TABLE mine (k int)")
    served.pub("CREATE SCHEMA later; ALTER TABLE t SET SCHEMA later; ALTER TABLE later.t RENAME TO u")
    served.pub(
        "INSERT INTO later.u (id) VALUES (3); DROP TABLE other; DROP TABLE mine; CREATE TABLE mine (k int PRIMARY KEY)"
    )
    served.pub("INSERT INTO mine VALUES (7); ALTER SCHEMA later RENAME TO last; INSERT INTO last.u (id) VALUES (4)")
    assert served.catch_up() == []
    served.same("SELECT id FROM last.u ORDER BY id")
    served.same("SELECT * FROM mine")
    assert served.sub("SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1") == [
        ("last.u", "r"), ("mine", "r")
    ]  # fmt: skip


def test_what_cannot_be_followed_is_a_warning(served: Served) -> None:
    following(served)
    served.sub("INSERT INTO t (id) VALUES (100)")
    served.pub("UPDATE t SET a = 1; ALTER TABLE t ALTER COLUMN a SET NOT NULL, ADD COLUMN n serial")
    served.pub("INSERT INTO t (id, a) VALUES (3, 3)")
    assert served.catch_up() == []
    assert served.sub("SELECT id, a, n FROM t ORDER BY id")[-2:] == [("3", "3", "3"), ("100", None, None)]
    told = [text.partition("does not follow its publisher: ")[2] for text in served.log.messages("WARNING")]
    assert [text for text in told if text] == [
        "ALTER TABLE public.t ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE public.t ALTER COLUMN n SET DEFAULT nextval('public.t_n_seq'::regclass)",
        "ALTER TABLE public.t ALTER COLUMN n SET NOT NULL",
    ]


def test_a_server_without_triggers(served: Served) -> None:
    """Its stream tells names, keys and replica identities; labels are asked for."""
    following(served, script="")
    served.pub("ALTER TABLE t RENAME TO u; INSERT INTO u (id, a) VALUES (3, 3)")
    served.pub("UPDATE u SET a = id; ALTER TABLE u DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, a)")
    served.pub("ALTER TYPE mood ADD VALUE 'middle' BEFORE 'high'")
    served.pub(
        "UPDATE u SET m = 'middle' WHERE id = 1; ALTER TABLE u REPLICA IDENTITY FULL; DELETE FROM u WHERE id = 2"
    )
    assert served.catch_up() == []
    served.same("SELECT * FROM u ORDER BY id")
    served.same("SELECT relreplident FROM pg_class WHERE relname = 'u'")
    served.same("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'u'::regclass AND contype = 'p'")


def test_what_only_the_catalog_tells(served: Served) -> None:
    """Without event triggers: no row is refused that was let in at the server."""
    following(served, TABLE + "; CREATE TABLE other (k int PRIMARY KEY); CREATE TABLE mine (k int)", script="")
    served.sub("DROP TABLE mine; CREATE TABLE mine (k int)")
    served.pub("INSERT INTO t (id) VALUES (3); ALTER TABLE t ALTER a SET DEFAULT 7, ALTER b SET DEFAULT 'x'")
    served.pub("UPDATE t SET a = 1; ALTER TABLE t ALTER a SET NOT NULL; DROP TABLE other")
    same(served)
    assert served.sub("SELECT relname FROM pg_class WHERE relname IN ('other', 'mine')") == [("mine",)]
    served.pub("ALTER TABLE t ALTER a DROP NOT NULL, ALTER b DROP DEFAULT; INSERT INTO t (id, a) VALUES (4, NULL)")
    same(served)
    served.pub("INSERT INTO t (id, a) VALUES (5, NULL); UPDATE t SET a = id; ALTER TABLE t ALTER a SET NOT NULL")
    served.pub("ALTER TABLE t ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED, REPLICA IDENTITY FULL")
    same(served)
    served.pub("ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t (id, a) VALUES (5, 6); ALTER TABLE t DROP COLUMN g")
    served.pub("UPDATE t SET m = 'low'; ALTER TYPE mood RENAME VALUE 'low' TO 'deep'")
    same(served)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_definitions_without_triggers(served: Served, seed: int) -> None:
    """A row brings columns, the next round all else; a label that is used at once may come a round late."""
    following(served, script="")
    random = Random(seed)
    workload = DefinitionWorkload(served.pub, random, renames_labels=False)
    for _ in range(8):
        workload.work(random.randint(1, 6))
        served.pub(workload.row())
        for _ in range(3):
            errors = served.catch_up()
            assert [e for e in errors if "invalid input value for enum" not in e[0]] == []
        assert errors == []
        assert differs(served.pub, served.sub) == ""


def test_only_published_tables_are_told_by_anybody(served: Served) -> None:
    following(served, publication="FOR TABLE t (id, a)")
    served.pub("CREATE TABLE secret (k int); ALTER TABLE secret ADD COLUMN v int; ALTER TABLE t ADD COLUMN hidden int")
    role = f"alters_{served.database}"
    served.pub(f"CREATE ROLE {role}; GRANT CREATE ON SCHEMA public TO {role}; ALTER TABLE t OWNER TO {role}")
    served.pub(
        f"SET ROLE {role}; ALTER TABLE t ALTER COLUMN a SET DEFAULT 4; RESET ROLE; INSERT INTO t (id) VALUES (3)"
    )
    messages = served.pub(
        f"SELECT convert_from(data, 'UTF8') FROM pg_logical_slot_peek_binary_changes('{served.slot}', NULL, NULL,"
        " 'proto_version', '1', 'publication_names', 'p', 'messages', 'true') WHERE get_byte(data, 0) = ascii('M')"
        " AND position('secret'::bytea IN data) > 0"
    )
    assert messages == []
    assert served.catch_up() == []
    served.same("SELECT id, a FROM t ORDER BY id")
    assert served.sub("SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY 1") == [
        ("a",), ("b",), ("id",), ("m",)
    ]  # fmt: skip
    served.pub(f"DROP SCHEMA pgrepl_ddl CASCADE; DROP OWNED BY {role}; DROP ROLE {role}")
    assert served.pub("SELECT evtname FROM pg_event_trigger WHERE evtname LIKE 'pgrepl%'") == []


def test_within_a_large_transaction(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent while it is in progress, and read in portions."""
    monkeypatch.setattr(messages, "PORTION", 1000)
    following(served)
    served.sub("ALTER SUBSCRIPTION s SET (streaming = on)")
    served.pub("ALTER ROLE postgres SET logical_decoding_work_mem = '64kB'")
    try:
        served.pub(
            "BEGIN; INSERT INTO t (id) SELECT g FROM generate_series(10, 2500) g; SAVEPOINT undone;"
            " ALTER TABLE t DROP b; ROLLBACK TO undone; ALTER TABLE t RENAME COLUMN a TO n;"
            " ALTER TABLE t ALTER COLUMN b SET DEFAULT 'y';"
            " UPDATE t SET n = id; ALTER TYPE mood RENAME VALUE 'low' TO 'deep';"
            " INSERT INTO t (id, m) VALUES (5, 'deep'); COMMIT"
        )
        same(served)
    finally:
        served.pub("ALTER ROLE postgres RESET logical_decoding_work_mem")


@pytest.mark.parametrize("publishing", [18], indirect=True)
def test_not_null_follows_when_it_is_validated(served: Served) -> None:
    """Before that rows may have NULL."""
    served.pub(SCRIPT)
    served.both("CREATE TABLE nv (id int PRIMARY KEY, k int, l int)")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES; INSERT INTO nv VALUES (1, NULL, 1)")
    served.subscribe(options="schema_changes = all")
    served.pub("ALTER TABLE nv ADD CONSTRAINT knn NOT NULL k NOT VALID, ALTER l SET NOT NULL")
    served.pub("CREATE TABLE made (id int PRIMARY KEY, k int); INSERT INTO made VALUES (1, NULL)")
    served.pub("ALTER TABLE made ADD CONSTRAINT made_k NOT NULL k NOT VALID")
    assert served.catch_up() == []
    served.same("SELECT nv.k, made.k FROM nv, made")
    shown = "SELECT attname, attnotnull FROM pg_attribute WHERE attrelid = 'nv'::regclass AND attnum > 0 ORDER BY 1"
    assert served.sub(shown) == [("id", "t"), ("k", "f"), ("l", "t")]
    served.pub("UPDATE nv SET k = 1; ALTER TABLE nv VALIDATE CONSTRAINT knn")
    assert served.catch_up() == []
    served.same(shown)


@pytest.mark.parametrize("publishing", [18], indirect=True)
@pytest.mark.parametrize("script", [SCRIPT, ""])
def test_not_null_keeps_its_name(served: Served, script: str) -> None:
    """With event triggers, and as the server's catalog tells it."""
    served.sub("ALTER DATABASE sub SET pgrepl.postgres_version = 18; SET pgrepl.postgres_version = 18")
    following(served, "CREATE TABLE t (id int PRIMARY KEY, k int)", script=script)
    served.pub('UPDATE t SET k = 1; ALTER TABLE t ADD CONSTRAINT "K nn" NOT NULL k')
    served.pub("ALTER TABLE t ADD l int CONSTRAINT lnn NOT NULL DEFAULT 1, ADD m int NOT NULL DEFAULT 2")
    served.pub("INSERT INTO t VALUES (3, 3)")
    assert served.catch_up() == []
    shown = "SELECT conname FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'n' ORDER BY 1"
    assert served.sub(shown) == [("K nn",), ("lnn",), ("t_id_not_null",), ("t_m_not_null",)]
