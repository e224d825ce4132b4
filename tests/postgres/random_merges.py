"""Random tables, sources, triggers and MERGE statements on them, as one psql script.

The order in which a MERGE meets its rows is nobody's promise: what is shown is sorted, and the errors that one row or
another may cause first are shown as one.
"""

from __future__ import annotations

from random import Random

from tests.postgres.random_triggers import SKIP

_BEGIN = r"""
\set VERBOSITY terse
CREATE TABLE log (what text);
CREATE TABLE o (k int);
INSERT INTO o VALUES (1), (3), (5), (8);
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
declare count int; shown text;
begin
  if statement ~ 'RETURNING' then
    execute 'WITH m AS (' || statement || ') SELECT string_agg(m::text, '' '' ORDER BY m::text), count(*) FROM m'
      into shown, count;
  else
    execute statement;
    get diagnostics count = row_count;
  end if;
  return format('%s %s %s', found, count, shown);
exception when integrity_constraint_violation or cardinality_violation or with_check_option_violation then
  return 'refused';
end $$;
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
begin raise notice '% % %', tg_name, tg_when, tg_op; return null; end $$;
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
begin if tg_op = 'DELETE' then return old; end if; new.b := coalesce(new.b, '') || '~'; return new; end $$;
CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$
begin
  insert into log values (format('%s %s %s %s %s %s', tg_name, tg_when, tg_op, tg_table_name, old, new));
  return coalesce(new, old);
end $$;
CREATE FUNCTION tables() RETURNS trigger LANGUAGE plpgsql AS $$
begin
  if tg_op <> 'INSERT' then
    raise notice '% old %', tg_name, (select string_agg(o::text, ' ' order by o::text) from o); end if;
  if tg_op <> 'DELETE' then
    raise notice '% new %', tg_name, (select string_agg(n::text, ' ' order by n::text) from n); end if;
  return null;
end $$;
"""
_COLUMNS = "b text DEFAULT 'd', n int DEFAULT 4 CHECK (n < 40), g int GENERATED ALWAYS AS (n * 2) STORED"
_TABLES = (
    f"CREATE TABLE t (a int PRIMARY KEY, {_COLUMNS});",
    f"CREATE TABLE t (a int, {_COLUMNS});",
    f"CREATE TABLE t (a int, {_COLUMNS}) PARTITION BY RANGE (a);\n"
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (8);\n"
    "CREATE TABLE t2 (x int, n int DEFAULT 5 CHECK (n < 40), g int GENERATED ALWAYS AS (n * 2) STORED, b text,\n"
    "  a int);\n"
    "ALTER TABLE t2 DROP COLUMN x;\nALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (8) TO (30);",
    f"CREATE TABLE t (a int, {_COLUMNS});\nCREATE TABLE u (x int DEFAULT 1) INHERITS (t);",
    f"CREATE TABLE base (a int, {_COLUMNS}, hidden int DEFAULT 0);\n"
    "CREATE VIEW t AS SELECT a, b, n, g FROM base WHERE a < 12 WITH CHECK OPTION;",
)
_EQUAL = (*("t.a = s.a",) * 3, "t.a = s.a AND s.n > {k}", "t.a = s.a AND t.n < {k}", "t.a = s.n", "s.b = t.b")
_OTHER = ("t.a BETWEEN s.a AND s.a + 1", "false", "t.a = s.a OR t.n = s.n", "t.a = {k}")
_OF_TARGET = (
    "t.n > {k}",
    "t.a % 2 = 0",
    "EXISTS (SELECT FROM o WHERE o.k = t.a)",
    "t.b IS NULL",
    "(SELECT count(*) FROM o) > 2",
)
_OF_SOURCE = ("s.n > {k}", "s.b IS NOT NULL", "s.a IN (SELECT k FROM o)", "s.a % 2 = 1", "false")
_OF_BOTH = (*_OF_TARGET, *_OF_SOURCE, "t.n < s.n", "t.b <> s.b")
_SET = (
    "n = s.n, b = s.b || t.b",
    "(b, n) = (s.b, t.n + 1)",
    "(n, b) = (SELECT k, 'o' || s.b FROM o WHERE k = t.a)",
    "a = t.a + {move}",
    "b = DEFAULT, n = DEFAULT",
    "n = coalesce((SELECT max(k) FROM o WHERE k < s.a), t.n)",
    "(a, b) = ROW ({key}, DEFAULT)",
)
_SET_ALONE = ("n = t.n + 1", "b = 'gone'", "(b, n) = ('x', DEFAULT)", "a = a + {move}")
_INSERT = (
    "(a, b) VALUES ({key}, s.b)",
    "VALUES ({key}, s.b, s.n)",
    "(n, a) VALUES (DEFAULT, {key} + 20)",
    "(a, b, g) VALUES ({key}, (SELECT min(k)::text FROM o), DEFAULT)",
    "DEFAULT VALUES",
    "(b, a) OVERRIDING USER VALUE VALUES ('u', {key})",
)
_KINDS = ("MATCHED", "MATCHED", "NOT MATCHED", "NOT MATCHED BY TARGET", "NOT MATCHED BY SOURCE")


def script(seed: int, statements: int = 30) -> str:
    random = Random(seed)
    table = random.choice(_TABLES)
    lines = [_BEGIN, SKIP, table, "CREATE TABLE s (a int, b text, n int);"]
    if "VIEW" not in table:
        lines += [_trigger(random, number) for number in range(random.choice((0, 0, 2, 4)))]
    for number in range(statements):
        if number % 6 == 0:
            lines += _filled(random, "VIEW" in table, "INHERITS" in table)
        # where keys are unique, new ones are far away: which of two rows has a key first depends on their order
        move, key = (str(1000 << number % 6), "s.a + 200") if "KEY" in table else ("7", "s.a")
        lines.append(f"SELECT try($$ {_merge(random).replace('{move}', move).replace('{key}', key)} $$);")
        if number % 3 == 2:
            lines.append(
                "SELECT tableoid::regclass, * FROM t ORDER BY a, b, n, tableoid;"
                if "VIEW" not in table
                else "SELECT * FROM base ORDER BY a, b, n;"
            )
    lines.append("SELECT * FROM log ORDER BY what;")
    return "\n".join(lines) + "\n"


def _filled(random: Random, view: bool, inherits: bool) -> list[str]:
    keys = random.sample(range(14), random.randint(0, 8))
    rows = [f"({key}, {random.choice(('NULL', repr('t' + str(key))))}, {random.randint(0, 9)})" for key in keys]
    sources = [random.randint(0, 14) for _ in range(random.randint(0, 8))]
    if random.random() < 0.8:
        sources = list(dict.fromkeys(sources))
    others = [f"({key}, {random.choice(('NULL', repr('s' + str(key))))}, {random.randint(0, 12)})" for key in sources]
    target = "base" if view else "t"
    lines = [f"DELETE FROM {target};", "DELETE FROM s;"]
    if rows:
        lines.append(f"INSERT INTO {target} (a, b, n) VALUES {', '.join(rows)};")
    if inherits:
        lines.append("INSERT INTO u VALUES (15, 'u', 3), (2, NULL, 2);")
    if others:
        lines.append(f"INSERT INTO s VALUES {', '.join(others)};")
    return lines


def _merge(random: Random) -> str:
    kinds = random.choices(_KINDS, k=random.randint(1, 4))
    by_source = "NOT MATCHED BY SOURCE" in kinds
    both = by_source and any(kind in ("NOT MATCHED", "NOT MATCHED BY TARGET") for kind in kinds)
    on = random.choice(_EQUAL if both or random.random() < 0.8 else _OTHER).format(k=random.randint(0, 12))
    source = random.choice(
        (
            "s",
            "s AS s",
            "(SELECT a, min(b) AS b, max(n) AS n FROM s GROUP BY a) AS s",
            f"(VALUES ({random.randint(0, 9)}, 'v', 5), ({random.randint(0, 9)}, NULL, NULL)) AS s (a, b, n)",
            "(SELECT s.* FROM s LEFT JOIN o ON o.k = s.a WHERE s.a > 2) AS s",
        )
    )
    seen: set[str] = set()
    whens = [_when(random, kind, seen) for kind in kinds]
    only = "ONLY " if random.random() < 0.1 else ""
    returning = random.choice(
        ("", "", "RETURNING merge_action(), t.*", "RETURNING merge_action(), s.a, t.a, t.b || s.b, t.g", "RETURNING *")
    )
    if returning == "RETURNING *":
        returning = "RETURNING (SELECT merge_action()), t, s.n"
    return f"MERGE INTO {only}t USING {source} ON {on} {' '.join(whens)} {returning}"


def _when(random: Random, kind: str, seen: set[str]) -> str:
    k = random.randint(0, 9)
    plain = kind.removesuffix(" BY TARGET")
    conditions = {"MATCHED": _OF_BOTH, "NOT MATCHED": _OF_SOURCE, "NOT MATCHED BY SOURCE": _OF_TARGET}[plain]
    condition = f" AND {random.choice(conditions).format(k=k)}"
    if plain not in seen and random.random() < 0.3:
        seen.add(plain)
        condition = ""
    if plain == "NOT MATCHED":
        action = random.choice(("DO NOTHING", *(f"INSERT {each}" for each in _INSERT)))
    else:
        sets = _SET if plain == "MATCHED" else _SET_ALONE
        action = random.choice(("DO NOTHING", "DELETE", *(f"UPDATE SET {each}" for each in sets)))
    return f"WHEN {kind}{condition} THEN {action}"


def _trigger(random: Random, number: int) -> str:
    events = random.sample(["INSERT", "UPDATE", "DELETE"], random.randint(1, 3))
    name = f"{random.choice('abz')}{number}"
    if random.random() < 0.3:
        event = events[0]
        said = {"INSERT": "NEW TABLE n", "DELETE": "OLD TABLE o", "UPDATE": "OLD TABLE o NEW TABLE n"}[event]
        return f"CREATE TRIGGER {name} AFTER {event} ON t REFERENCING {said} EXECUTE FUNCTION tables();"
    when = random.choice(("BEFORE", "AFTER"))
    if random.random() < 0.4:
        return f"CREATE TRIGGER {name} {when} {' OR '.join(events)} ON t EXECUTE FUNCTION say();"
    function = random.choice(("skip", "change", "logs")) if when == "BEFORE" else "logs"
    if "UPDATE" in events and random.random() < 0.4:
        events[events.index("UPDATE")] = "UPDATE OF n"
    return f"CREATE TRIGGER {name} {when} {' OR '.join(events)} ON t FOR EACH ROW EXECUTE FUNCTION {function}();"
