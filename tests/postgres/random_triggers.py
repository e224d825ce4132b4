"""Random tables with triggers, and random statements on them, as one psql script."""

from __future__ import annotations

from random import Random

# a trigger that leaves out every third row
SKIP = """CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$
begin
  if tg_op = 'DELETE' then if old.a % 3 = 0 then return null; end if; return old; end if;
  if new.a % 3 = 0 then return null; end if;
  return new;
end $$;
"""
_FUNCTIONS = r"""
\set VERBOSITY terse
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
begin
  if tg_level = 'ROW' then raise notice '% % % % % old % new %', tg_name, tg_when, tg_op, tg_table_name,
    pg_trigger_depth(), old, new;
  else raise notice '% % % % %', tg_name, tg_when, tg_op, tg_table_name, pg_trigger_depth(); end if;
  return coalesce(new, old);
end $$;
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
begin if tg_op = 'DELETE' then return old; end if; new.b := coalesce(new.b, '') || tg_argv[0]; return new; end $$;
CREATE FUNCTION moved() RETURNS trigger LANGUAGE plpgsql AS $$
begin if tg_op = 'DELETE' then return old; end if; if new.a % 5 = 0 then new.a := new.a + 1; end if; return new; end $$;
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$
begin raise notice '% % sees % in t, % in c', tg_name, tg_op, (select count(*) from t), (select count(*) from c);
  return coalesce(new, old); end $$;
CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$
begin insert into log (what) values (tg_name || ' ' || tg_op || ' ' || coalesce(new::text, old::text, ''));
  return coalesce(new, old); end $$;
CREATE FUNCTION adds() RETURNS trigger LANGUAGE plpgsql AS $$
begin if pg_trigger_depth() < 3 and coalesce(new.a, old.a) < 20 then
    insert into c values (coalesce(new.a, old.a) + 1, 'added') on conflict do nothing; end if;
  return coalesce(new, old); end $$;
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$
begin if coalesce(new.a, old.a) = 13 then raise exception 'no 13'; end if; return coalesce(new, old); end $$;
CREATE FUNCTION caught() RETURNS trigger LANGUAGE plpgsql AS $$
begin insert into log (what) values (1 / (coalesce(new.a, old.a) - 7)); return coalesce(new, old);
exception when division_by_zero then insert into log (what) values ('caught'); return coalesce(new, old); end $$;
CREATE FUNCTION tables() RETURNS trigger LANGUAGE plpgsql AS $$
begin
  if tg_op <> 'INSERT' then
    raise notice '% % old %', tg_name, tg_table_name, (select string_agg(o::text, ' ' order by o) from o); end if;
  if tg_op <> 'DELETE' then
    raise notice '% % new %', tg_name, tg_table_name, (select string_agg(n::text, ' ' order by n) from n); end if;
  return null;
end $$;
CREATE TABLE log (id serial, what text);
"""

_TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (a * 2) STORED);",
    "CREATE TABLE t (a int, b text, CHECK (a <> 17)) PARTITION BY RANGE (a);\n"
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (8);\n"
    "CREATE TABLE t2 (x int, b text, a int, CHECK (a <> 17));\nALTER TABLE t2 DROP COLUMN x;\n"
    "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (8) TO (30);\nALTER TABLE t ADD PRIMARY KEY (a);",
    "CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL DEFAULT 'd');",
)
_KEYS = (
    "ON DELETE CASCADE ON UPDATE CASCADE",
    "ON DELETE SET NULL",
    "",
    "ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED",
)
_ROW = ("say", "skip", "change", "moved", "seen", "logs", "adds", "fails", "caught")


def script(seed: int, statements: int = 25) -> str:
    random = Random(seed)
    lines = [_FUNCTIONS, SKIP, random.choice(_TABLES)]
    lines.append(f"CREATE TABLE c (a int UNIQUE, b text, r int REFERENCES t {random.choice(_KEYS)});")
    lines += [_trigger(random, number) for number in range(random.randint(3, 8))]
    lines += [_statement(random) for _ in range(statements)]
    lines.append("SELECT * FROM t ORDER BY a;\nSELECT * FROM c ORDER BY a, r;\nSELECT what FROM log ORDER BY id;")
    return "\n".join(lines) + "\n"


def _trigger(random: Random, number: int) -> str:
    table = random.choice("tttc")
    name = f"{random.choice('abz')}{number}"
    events = random.sample(["INSERT", "UPDATE", "DELETE"], random.randint(1, 3))
    if random.random() < 0.2:
        event = events[0]
        said = {"INSERT": "NEW TABLE n", "DELETE": "OLD TABLE o", "UPDATE": "OLD TABLE o NEW TABLE n"}[event]
        return f"CREATE TRIGGER {name} AFTER {event} ON {table} REFERENCING {said} EXECUTE FUNCTION tables();"
    if random.random() < 0.25:
        if random.random() < 0.3:
            events.append("TRUNCATE")
        when = random.choice(("BEFORE", "AFTER"))
        function = random.choice(("say", "seen"))
        return f"CREATE TRIGGER {name} {when} {' OR '.join(events)} ON {table} EXECUTE FUNCTION {function}();"
    if "UPDATE" in events and random.random() < 0.4:
        events[events.index("UPDATE")] = "UPDATE OF " + random.choice(("a", "b"))
    function = random.choice(_ROW)
    argument = f"'{number}'" if function == "change" else ""
    condition = ""
    if random.random() < 0.3 and "DELETE" not in events:
        condition = random.choice(("WHEN (new.a > 4) ", "WHEN (new.b IS NOT NULL) "))
    if events == ["UPDATE"] and random.random() < 0.5:
        condition = "WHEN (old.b IS DISTINCT FROM new.b) "
    if random.random() < 0.15:
        wait = random.choice(("DEFERRABLE INITIALLY DEFERRED ", "DEFERRABLE ", ""))
        return (
            f"CREATE CONSTRAINT TRIGGER {name} AFTER {' OR '.join(events)} ON {table} {wait}"
            f"FOR EACH ROW {condition}EXECUTE FUNCTION {function}({argument});"
        )
    when = random.choice(("BEFORE", "BEFORE", "AFTER"))
    return (
        f"CREATE TRIGGER {name} {when} {' OR '.join(events)} ON {table} "
        f"FOR EACH ROW {condition}EXECUTE FUNCTION {function}({argument});"
    )


def _statement(random: Random) -> str:
    a, b = random.randint(0, 21), random.randint(0, 21)
    return random.choice(
        (
            f"INSERT INTO t VALUES ({a}, 'i{a}'), ({b}, 'i{b}');",
            f"INSERT INTO t SELECT i, 's' FROM generate_series({a}, {a + 3}) i ON CONFLICT (a) DO NOTHING;",
            f"INSERT INTO t VALUES ({a}, 'u'), ({b}, 'v')\n"
            "ON CONFLICT (a) DO UPDATE SET b = excluded.b || t.b RETURNING a, b;",
            f"INSERT INTO c SELECT {b}, 'c', a FROM t ORDER BY a LIMIT 1;",
            f"INSERT INTO c VALUES ({a}, NULL, {b});",
            f"UPDATE t SET b = b || 'x' WHERE a = {a};",
            f"UPDATE t SET a = {b} WHERE a = {a};",
            f"UPDATE c SET b = 'n', r = NULL WHERE a >= {a} AND a < {a + 1};",
            f"DELETE FROM t WHERE a = {a};",
            f"DELETE FROM c WHERE a = {a} RETURNING *;",
            f"BEGIN;\nINSERT INTO t VALUES ({a}, 'b') ON CONFLICT DO NOTHING;\n"
            f"UPDATE t SET b = 'in block' WHERE a = {b};\nCOMMIT;",
            f"BEGIN;\nDELETE FROM t WHERE a = {a};\nROLLBACK;",
            "SELECT a FROM c ORDER BY a;",
            "SELECT count(*) FROM t;",
            f"ALTER TABLE t {random.choice(('DISABLE', 'ENABLE'))} TRIGGER USER;",
            _with(random),
            _with(random),
            _with(random),
        )
    )


def _with(random: Random) -> str:
    """A statement over statements in WITH that change rows, of which it reads none, some or all."""
    parts, read = [], []
    for number in range(random.randint(1, 3)):
        a, b, name = random.randint(0, 21), random.randint(0, 21), f"w{number}"
        source = f"SELECT a + 1, 'from {read[-1]}' FROM {read[-1]}" if read and random.random() < 0.5 else None
        parts.append(
            f"{name} AS ("
            + random.choice(
                (
                    f"INSERT INTO t {source or f'VALUES ({a}, {name!r}), ({b}, {name!r})'} ON CONFLICT (a) DO NOTHING",
                    f"INSERT INTO t {source or f'VALUES ({a}, {name!r})'} ON CONFLICT (a) DO UPDATE SET b = excluded.b",
                    f"INSERT INTO c {source or f'VALUES ({a}, {name!r})'} ON CONFLICT DO NOTHING",
                    f"INSERT INTO c VALUES ({a}, {name!r}, {b})",
                    f"UPDATE t SET b = b || '{number}' WHERE a BETWEEN {a} AND {a + 2}",
                    f"UPDATE t SET a = {b} WHERE a = {a}",
                    f"DELETE FROM t WHERE a = {a}",
                    f"DELETE FROM c WHERE a BETWEEN {a} AND {a + 1}",
                )
            )
            + " RETURNING a)"
        )
        if random.random() < 0.7:
            read.append(name)
    last, a = random.choice(read) if read else None, random.randint(0, 21)
    # an UPDATE or DELETE that joins such rows reads them if PostgreSQL's plan comes to them
    mains = [f"UPDATE t SET b = 'main' WHERE a = {a}", f"DELETE FROM t WHERE a = {a}", "SELECT count(*) FROM t"]
    if last:
        mains = [
            f"SELECT a FROM {last} ORDER BY a",
            f"SELECT a FROM {last} LIMIT 1",
            f"INSERT INTO c SELECT a, 'main' FROM {last} ON CONFLICT DO NOTHING",
            *mains,
        ]
    main = random.choice(mains)
    return f"WITH {', '.join(parts)}\n{main};"
