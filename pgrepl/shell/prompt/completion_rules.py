r"""The rules of tab completion.

A rule is a pattern of the words before the cursor, and after `->` the candidates, separated by `|`. In a pattern `^`
anchors it to the beginning of the statement (else it is about the last words), `*` is any word, `**` any words, `A|B`
one of several. A candidate is a phrase of key words, or in angle brackets a kind of name (`completion.NAMES`). The
first rule that matches applies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

# kinds of arguments, and the backslash commands that take them
SLASH_ARGUMENTS = {
    "<database>": ("c", "connect", "l", "list", "l+", "list+"),
    "<file>": ("e", "edit", "g", "gx", "i", "include", "include_relative", "ir", "o", "out", "s", "w", "write"),
    "<folder>": ("cd",),
    "<pset>": ("pset",),
    "<variable>": ("set", "unset", "echo", "qecho", "warn", "if", "elif"),
    "<help>": ("h", "help"),
    "on|off": ("t", "timing"),
    "on|off|auto": ("x",),
    "commands|options|variables": ("?",),
    "<encoding>": ("encoding",),
    "<role>": ("password", "du", "dg", "drg", "drds", "du+", "dg+", "duS", "dgS", "drgS", "duS+", "dgS+"),
    "<publication>": ("dRp", "dRp+"),
    "<subscription>": ("dRs", "dRs+", "apply", "sync"),
    "<schema>": ("dn", "dn+", "dnS", "dnS+", "ddp"),
    "<setting>": ("dconfig", "dconfig+"),
    "<view>": ("dv", "dv+", "dvS", "dvS+", "ev", "sv", "sv+"),
    "<index>": ("di", "di+", "diS", "diS+"),
    "<sequence>": ("ds", "ds+", "dsS", "dsS+"),
    "<table>": ("dt", "dt+", "dtS", "dtS+"),
    "<matview>": ("dm", "dm+", "dmS", "dmS+"),
    "<domain>": ("dD", "dD+", "dDS", "dDS+"),
    "<own type>": ("dT", "dT+", "dTS", "dTS+"),
    "<routine>": ("df", "df+", "dfS", "dfS+", "ef", "sf", "sf+"),
    "<relation>": ("d", "d+", "dS", "dS+", "dp", "z"),
}

_PUBLICATION_OBJECTS = "TABLE | TABLES IN SCHEMA"
_SUBSCRIPTION_OPTIONS = (
    "binary | conflict_log | connect | copy_data | create_slot | disable_on_error | enabled | failover | history"
    " | max_retention_duration | origin | password_required | retain_dead_tuples | run_as_owner | schema_changes"
    " | sequences | slot_name | streaming | synchronous_commit | two_phase"
)
_SET_SUBSCRIPTION_OPTIONS = (
    "binary | conflict_log | disable_on_error | failover | history | max_retention_duration | origin"
    " | password_required | retain_dead_tuples | run_as_owner | schema_changes | sequences | slot_name | streaming"
    " | synchronous_commit"
)
_COMMITS = "local | off | on | remote_apply | remote_write"
_COLUMN = "CHECK ( | DEFAULT | GENERATED | NOT NULL | PRIMARY KEY | REFERENCES | UNIQUE"
_KINDS = (
    "DATABASE | DOMAIN | FUNCTION | GROUP | INDEX | MATERIALIZED VIEW | PROCEDURE | PUBLICATION | ROLE | SCHEMA"
    " | SEQUENCE | SUBSCRIPTION | TABLE | TRIGGER | TYPE | USER | VIEW"
)
_ROLE_OPTIONS = (
    "ADMIN | BYPASSRLS | CONNECTION LIMIT | CREATEDB | CREATEROLE | ENCRYPTED PASSWORD | IN | INHERIT | LOGIN"
    " | NOBYPASSRLS | NOCREATEDB | NOCREATEROLE | NOINHERIT | NOLOGIN | NOREPLICATION | NOSUPERUSER"
    " | PASSWORD | REPLICATION | ROLE"
    " | SUPERUSER | VALID UNTIL | WITH"
)
_PRIVILEGES = (
    "ALL | CONNECT ON | CREATE ON | DELETE ON | INSERT ON | REFERENCES ON | SELECT ON | TEMPORARY ON | TRIGGER ON"
    " | TRUNCATE ON | UPDATE ON | USAGE ON | <role>"
)
_DEFAULT_PRIVILEGES = (
    "ALL ON | CREATE ON | DELETE ON | EXECUTE ON | GRANT OPTION FOR | INSERT ON | MAINTAIN ON | REFERENCES ON"
    " | SELECT ON | TRIGGER ON | TRUNCATE ON | UPDATE ON | USAGE ON"
)
_COPY_OPTIONS = (
    "DEFAULT | DELIMITER | ENCODING | ESCAPE | FORCE_NOT_NULL | FORCE_NULL | FORCE_QUOTE | FORMAT | FREEZE | HEADER"
    " | LOG_VERBOSITY | NULL | ON_ERROR | QUOTE"
)
_EXPLAINED = "DELETE FROM | INSERT INTO | MERGE INTO | SELECT | UPDATE | VALUES ( | WITH"
_ISOLATION = "ISOLATION LEVEL | READ ONLY | READ WRITE"

_RULES = f"""
^ALTER PUBLICATION -> <publication>
^ALTER PUBLICATION * -> ADD | DROP | OWNER TO | RENAME TO | SET
^ALTER PUBLICATION * ADD|DROP -> {_PUBLICATION_OBJECTS}
^ALTER PUBLICATION * SET -> ( | {_PUBLICATION_OBJECTS}
^ALTER PUBLICATION * SET ( ** publish = -> 'insert, update, delete, truncate'
^ALTER PUBLICATION * SET ( ** publish_via_partition_root = -> true | false
^ALTER PUBLICATION * SET ( ** publish_generated_columns = -> none | stored
^ALTER PUBLICATION * SET ( ** , -> publish | publish_generated_columns | publish_via_partition_root
^ALTER PUBLICATION * SET ( -> publish | publish_generated_columns | publish_via_partition_root
^ALTER PUBLICATION * ADD|SET|DROP TABLES IN SCHEMA -> <schema> | CURRENT_SCHEMA
^ALTER PUBLICATION ** TABLE * ( -> <column>
^ALTER PUBLICATION ** TABLE * WHERE ( -> <column>
^ALTER PUBLICATION ** TABLE -> <table> | ONLY
^ALTER PUBLICATION ** TABLE * -> ( | WHERE (
^CREATE PUBLICATION * -> FOR ALL SEQUENCES | FOR ALL TABLES | FOR TABLE | FOR TABLES IN SCHEMA | WITH (
^CREATE PUBLICATION * FOR -> ALL SEQUENCES | ALL TABLES | TABLE | TABLES IN SCHEMA
^CREATE PUBLICATION * FOR ALL -> SEQUENCES | TABLES
^CREATE PUBLICATION * FOR ALL TABLES -> EXCEPT (TABLE | WITH (
^CREATE PUBLICATION * FOR TABLES -> IN SCHEMA
^CREATE PUBLICATION * FOR TABLES IN SCHEMA -> <schema> | CURRENT_SCHEMA
^CREATE PUBLICATION * FOR TABLES IN SCHEMA * -> WITH (
^CREATE PUBLICATION ** WITH ( ** publish = -> 'insert, update, delete, truncate'
^CREATE PUBLICATION ** WITH ( ** publish_via_partition_root = -> true | false
^CREATE PUBLICATION ** WITH ( ** publish_generated_columns = -> none | stored
^CREATE PUBLICATION ** WITH ( -> publish | publish_generated_columns | publish_via_partition_root
^CREATE PUBLICATION ** WITH ( ** , -> publish | publish_generated_columns | publish_via_partition_root
^CREATE PUBLICATION ** TABLE -> <table> | ONLY
^CREATE PUBLICATION ** TABLE * ( -> <column>
^CREATE PUBLICATION ** TABLE * ( ** , -> <column>
^CREATE PUBLICATION ** WHERE ( -> <column>
^CREATE PUBLICATION ** WHERE ( ** AND|OR|NOT -> <column>
^CREATE PUBLICATION ** WHERE ( ** ) -> WITH (
^CREATE PUBLICATION ** WHERE ( ** -> <expression> | AND | IN ( | IS NOT NULL | IS NULL | LIKE | NOT | OR
^CREATE PUBLICATION ** TABLE * -> ( | WHERE ( | WITH (
^CREATE PUBLICATION ** , -> <table> | TABLE | TABLES IN SCHEMA
^DROP PUBLICATION -> <publication> | IF EXISTS
^DROP PUBLICATION IF EXISTS -> <publication>

^COPY -> <table> | (
^COPY * ( -> <column>
^COPY * ( ** , -> <column>
^COPY * -> FROM | TO
^COPY ** FROM -> PROGRAM | STDIN
^COPY ** TO -> PROGRAM | STDOUT
^COPY ** (|, FORCE_NULL|FORCE_NOT_NULL|FORCE_QUOTE -> ( | *
^COPY ** FORCE_NULL|FORCE_NOT_NULL|FORCE_QUOTE ( -> <column>
^COPY ** FORCE_NULL|FORCE_NOT_NULL|FORCE_QUOTE ( ** , -> <column>
^COPY ** (|, ENCODING -> <encoding>
^COPY ** (|, FREEZE -> false | true
^COPY ** FROM|TO * ( ** FORMAT -> csv | parquet | text
^COPY ** FROM|TO * ( ** ON_ERROR -> ignore | stop
^COPY ** FROM|TO * ( ** LOG_VERBOSITY -> default | verbose
^COPY ** FROM|TO * ( ** HEADER -> false | match | true
^COPY ** FROM|TO * ( -> {_COPY_OPTIONS}
^COPY ** FROM|TO * ( ** , -> {_COPY_OPTIONS}
^COPY ** WITH ( ** FORMAT -> csv | parquet | text
^COPY ** WITH ( ** ON_ERROR -> ignore | stop
^COPY ** WITH ( ** LOG_VERBOSITY -> default | verbose
^COPY ** WITH ( ** HEADER -> false | match | true
^COPY ** WITH (|, -> {_COPY_OPTIONS}
^COPY ** WITH ( ** , -> {_COPY_OPTIONS}
^COPY ** FROM * -> WHERE | WITH (
^COPY ** TO * -> WITH (

^ALTER SUBSCRIPTION -> <subscription>
^ALTER SUBSCRIPTION * -> ADD PUBLICATION | CONNECTION | DISABLE | DROP PUBLICATION | ENABLE | OWNER TO \
| REFRESH PUBLICATION | REFRESH SEQUENCES | RENAME TO | SET | SKIP (
^ALTER SUBSCRIPTION * ADD|DROP -> PUBLICATION
^ALTER SUBSCRIPTION * REFRESH -> PUBLICATION | SEQUENCES
^ALTER SUBSCRIPTION * REFRESH PUBLICATION -> WITH (
^ALTER SUBSCRIPTION * REFRESH PUBLICATION WITH ( -> copy_data
^ALTER SUBSCRIPTION * SET -> ( | PUBLICATION
^ALTER SUBSCRIPTION * SKIP -> (
^ALTER SUBSCRIPTION * SKIP ( -> lsn
^ALTER SUBSCRIPTION * SKIP ( lsn = -> NONE
^ALTER SUBSCRIPTION * ADD|SET|DROP PUBLICATION -> <publication>
^ALTER SUBSCRIPTION * ADD|SET|DROP PUBLICATION * -> WITH (
^ALTER SUBSCRIPTION * ADD|SET|DROP PUBLICATION * WITH (|, -> copy_data | refresh
^ALTER SUBSCRIPTION ** (|, copy_data|refresh = -> true | false
^ALTER SUBSCRIPTION * SET ( -> {_SET_SUBSCRIPTION_OPTIONS}
^ALTER SUBSCRIPTION * SET ( ** schema_changes = -> all | columns | none | tables
^ALTER SUBSCRIPTION * SET ( ** origin = -> any | none
^ALTER SUBSCRIPTION * SET ( ** streaming = -> on | off | parallel
^ALTER SUBSCRIPTION * SET ( ** slot_name = -> NONE
^ALTER SUBSCRIPTION * SET ( ** synchronous_commit = -> {_COMMITS}
^ALTER SUBSCRIPTION * SET ( ** = -> true | false
^ALTER SUBSCRIPTION * SET ( ** , -> {_SET_SUBSCRIPTION_OPTIONS}
^CREATE SUBSCRIPTION * -> CONNECTION
^CREATE SUBSCRIPTION * CONNECTION * -> PUBLICATION
^CREATE SUBSCRIPTION ** PUBLICATION -> <publication>
^CREATE SUBSCRIPTION ** PUBLICATION ** WITH ( -> {_SUBSCRIPTION_OPTIONS}
^CREATE SUBSCRIPTION ** WITH ( ** schema_changes = -> all | columns | none | tables
^CREATE SUBSCRIPTION ** WITH ( ** origin = -> any | none
^CREATE SUBSCRIPTION ** WITH ( ** streaming = -> on | off | parallel
^CREATE SUBSCRIPTION ** WITH ( ** slot_name = -> NONE
^CREATE SUBSCRIPTION ** WITH ( ** synchronous_commit = -> {_COMMITS}
^CREATE SUBSCRIPTION ** WITH ( ** = -> true | false
^CREATE SUBSCRIPTION ** WITH ( ** , -> {_SUBSCRIPTION_OPTIONS}
^CREATE SUBSCRIPTION ** PUBLICATION ** , -> <publication>
^CREATE SUBSCRIPTION ** PUBLICATION ** -> WITH (
^DROP SUBSCRIPTION -> <subscription> | IF EXISTS
^DROP SUBSCRIPTION IF EXISTS -> <subscription>

^ALTER -> {_KINDS} | DEFAULT PRIVILEGES | ROUTINE | SYSTEM
^ALTER DEFAULT -> PRIVILEGES
^ALTER DEFAULT PRIVILEGES -> FOR ROLE | GRANT | IN SCHEMA | REVOKE
^ALTER DEFAULT PRIVILEGES FOR -> ROLE
^ALTER DEFAULT PRIVILEGES FOR ROLE|USER -> <role>
^ALTER DEFAULT PRIVILEGES IN -> SCHEMA
^ALTER DEFAULT PRIVILEGES IN SCHEMA -> <schema>
^ALTER DEFAULT PRIVILEGES FOR ROLE|USER * -> GRANT | IN SCHEMA | REVOKE
^ALTER DEFAULT PRIVILEGES IN SCHEMA * -> FOR ROLE | GRANT | REVOKE
^ALTER DEFAULT PRIVILEGES ** GRANT|REVOKE -> {_DEFAULT_PRIVILEGES}
^ALTER DEFAULT PRIVILEGES ** ON -> FUNCTIONS | ROUTINES | SCHEMAS | SEQUENCES | TABLES | TYPES
^ALTER DEFAULT PRIVILEGES ** TO|FROM -> <role> | PUBLIC
^ALTER DEFAULT PRIVILEGES ** GRANT ** ON * -> TO
^ALTER DEFAULT PRIVILEGES ** REVOKE ** ON * -> FROM
^CREATE -> {_KINDS} | OR REPLACE | TEMPORARY | UNIQUE INDEX | UNLOGGED TABLE
^CREATE TEMP|TEMPORARY -> SEQUENCE | TABLE | VIEW
^CREATE OR -> REPLACE
^CREATE OR REPLACE -> FUNCTION | PROCEDURE | TRIGGER | VIEW
^ALTER|DROP FUNCTION -> <routine> | IF EXISTS
^ALTER|DROP PROCEDURE -> <routine> | IF EXISTS
^ALTER|DROP ROUTINE -> <routine> | IF EXISTS
^DROP FUNCTION|PROCEDURE|ROUTINE IF EXISTS -> <routine>
^CALL -> <routine>
^CREATE UNIQUE -> INDEX
^CREATE UNLOGGED -> TABLE
^DROP -> {_KINDS} | OWNED BY | ROUTINE
^ALTER|DROP TABLE -> <table> | IF EXISTS
^ALTER|DROP TABLE IF EXISTS -> <table>
^ALTER|DROP VIEW -> <view> | IF EXISTS
^ALTER|DROP MATERIALIZED -> VIEW
^ALTER|DROP MATERIALIZED VIEW IF EXISTS -> <matview>
^ALTER|DROP MATERIALIZED VIEW -> <matview> | IF EXISTS
^ALTER MATERIALIZED VIEW * -> ALTER COLUMN | CLUSTER ON | OWNER TO | RENAME | RESET ( | SET | SET ( | SET SCHEMA
^ALTER MATERIALIZED VIEW * RENAME -> COLUMN | TO
^ALTER MATERIALIZED VIEW * OWNER TO -> <role> | CURRENT_ROLE | CURRENT_USER | SESSION_USER
^CREATE MATERIALIZED -> VIEW
^CREATE MATERIALIZED VIEW * -> AS | USING | WITH (
^CREATE MATERIALIZED VIEW * AS -> SELECT | WITH
^REFRESH -> MATERIALIZED VIEW
^REFRESH MATERIALIZED -> VIEW
^REFRESH MATERIALIZED VIEW -> <matview> | CONCURRENTLY
^REFRESH MATERIALIZED VIEW CONCURRENTLY -> <matview>
^REFRESH MATERIALIZED VIEW CONCURRENTLY * -> WITH
^REFRESH MATERIALIZED VIEW * -> WITH
^REFRESH MATERIALIZED VIEW ** WITH -> DATA | NO DATA
^ALTER|DROP INDEX -> <index> | IF EXISTS
^ALTER|DROP SEQUENCE -> <sequence> | IF EXISTS
^ALTER|DROP SCHEMA -> <schema> | IF EXISTS
^ALTER|DROP DATABASE -> <database> | IF EXISTS
^ALTER|DROP ROLE|USER|GROUP -> <role> | IF EXISTS
^DROP OWNED BY -> <role>
^ALTER DOMAIN -> <domain>
^ALTER DOMAIN * -> ADD | DROP | OWNER TO | RENAME | SET | VALIDATE CONSTRAINT
^ALTER DOMAIN * ADD -> CHECK ( | CONSTRAINT | NOT NULL
^ALTER DOMAIN * ADD CONSTRAINT * -> CHECK ( | NOT NULL
^ALTER DOMAIN * DROP -> CONSTRAINT | DEFAULT | NOT NULL
^ALTER DOMAIN * RENAME -> CONSTRAINT | TO
^ALTER DOMAIN * RENAME CONSTRAINT * -> TO
^ALTER DOMAIN * SET -> DEFAULT | NOT NULL | SCHEMA
^CREATE DOMAIN * -> AS
^CREATE DOMAIN * AS -> <type>
^CREATE DOMAIN * AS * ** CONSTRAINT * -> CHECK ( | NOT NULL
^CREATE DOMAIN * AS * -> CHECK ( | COLLATE | CONSTRAINT | DEFAULT | NOT NULL | NULL
^DROP DOMAIN -> <domain> | IF EXISTS
^DROP DOMAIN IF EXISTS -> <domain>
^ALTER TYPE -> <own type>
^ALTER TYPE * -> ADD ATTRIBUTE | ADD VALUE | ALTER ATTRIBUTE | DROP ATTRIBUTE | OWNER TO | RENAME | SET SCHEMA
^ALTER TYPE * ADD -> ATTRIBUTE | VALUE
^ALTER TYPE * ADD ATTRIBUTE * -> <type>
^ALTER TYPE * ADD VALUE -> IF NOT EXISTS
^ALTER TYPE * ADD VALUE ** NOT EXISTS * -> AFTER | BEFORE
^ALTER TYPE * ADD VALUE * -> AFTER | BEFORE
^ALTER TYPE * ALTER|DROP -> ATTRIBUTE
^ALTER TYPE * ALTER ATTRIBUTE * -> TYPE
^ALTER TYPE * ALTER ATTRIBUTE * TYPE -> <type>
^ALTER TYPE * RENAME -> ATTRIBUTE | TO | VALUE
^ALTER TYPE * RENAME ATTRIBUTE|VALUE * -> TO
^ALTER DOMAIN|TYPE * OWNER TO -> <role> | CURRENT_ROLE | CURRENT_USER | SESSION_USER
^ALTER DOMAIN|TYPE * SET SCHEMA -> <schema>
^CREATE TYPE * -> AS
^CREATE TYPE * AS -> ( | ENUM (
^DROP TYPE -> <own type> | IF EXISTS
^DROP TYPE IF EXISTS -> <own type>
^ALTER TRIGGER -> <trigger>
^DROP TRIGGER -> <trigger> | IF EXISTS
^DROP TRIGGER IF EXISTS -> <trigger>
^DROP TRIGGER * ON -> <relation>
^DROP TRIGGER IF EXISTS * -> ON
^DROP TRIGGER * -> ON
^DROP ** -> CASCADE | RESTRICT
^ALTER DATABASE|SCHEMA|SEQUENCE|VIEW|TABLE * OWNER TO -> <role> | CURRENT_ROLE | CURRENT_USER | SESSION_USER
^ALTER PUBLICATION|SUBSCRIPTION * OWNER TO -> <role> | CURRENT_ROLE | CURRENT_USER | SESSION_USER
^ALTER TABLE * -> ADD | ALTER | ATTACH PARTITION | DETACH PARTITION | DROP | INHERIT | NO INHERIT | OWNER TO | RENAME \
| REPLICA IDENTITY | SET SCHEMA | VALIDATE CONSTRAINT
^ALTER TABLE * ADD CONSTRAINT * -> CHECK ( | FOREIGN KEY ( | PRIMARY KEY | UNIQUE
^ALTER TABLE * ADD -> CHECK | COLUMN | CONSTRAINT | FOREIGN KEY | PRIMARY KEY | UNIQUE
^ALTER TABLE * ALTER|DROP|RENAME -> COLUMN | CONSTRAINT | <column>
^ALTER TABLE * ALTER|DROP|RENAME COLUMN -> <column>
^ALTER TABLE ** ADD COLUMN * -> <type>
^ALTER TABLE ** ADD COLUMN * * -> {_COLUMN}
^ALTER TABLE ** ALTER * TYPE -> <type>
^ALTER TABLE ** ALTER COLUMN * TYPE -> <type>
^ALTER TABLE ** ALTER COLUMN * SET DATA TYPE -> <type>
^ALTER TABLE * ALTER * -> DROP DEFAULT | DROP NOT NULL | SET DEFAULT | SET NOT NULL | TYPE
^ALTER TABLE * ALTER COLUMN * -> DROP DEFAULT | DROP NOT NULL | SET DEFAULT | SET NOT NULL | TYPE
^ALTER TABLE * REPLICA -> IDENTITY
^ALTER TABLE * REPLICA IDENTITY -> DEFAULT | FULL | NOTHING | USING INDEX
^ALTER TABLE * REPLICA IDENTITY USING INDEX -> <index>
^ALTER TABLE * ATTACH PARTITION -> <table>
^ALTER TABLE * ATTACH PARTITION * -> DEFAULT | FOR VALUES
^ALTER TABLE * DETACH PARTITION -> <table>
^ALTER TABLE * SET SCHEMA -> <schema>
^ALTER|CREATE ROLE|USER * -> {_ROLE_OPTIONS}
^ALTER DATABASE * -> CONNECTION LIMIT | OWNER TO | RENAME TO | RESET | SET
^ALTER SCHEMA * -> OWNER TO | RENAME TO
^ALTER VIEW|SEQUENCE|INDEX * -> OWNER TO | RENAME TO | SET SCHEMA
^CREATE INDEX|UNIQUE ** ON -> <table>
^CREATE TRIGGER * -> AFTER | BEFORE | INSTEAD OF
^CREATE TRIGGER * INSTEAD -> OF
^CREATE TRIGGER * AFTER|BEFORE|OF|OR -> DELETE | INSERT | TRUNCATE | UPDATE
^CREATE TRIGGER * ** OR -> DELETE | INSERT | TRUNCATE | UPDATE
^CREATE TRIGGER ** DELETE|INSERT|TRUNCATE -> ON | OR
^CREATE TRIGGER ** UPDATE -> OF | ON | OR
^CREATE TRIGGER ** ON -> <relation>
^CREATE TRIGGER ** ON * -> EXECUTE FUNCTION | FOR EACH ROW | FOR EACH STATEMENT | REFERENCING | WHEN (
^CREATE TRIGGER ** EACH ROW|STATEMENT -> EXECUTE FUNCTION | WHEN (
^ALTER|DROP TRIGGER * -> ON
^ALTER|DROP TRIGGER * ON -> <relation>
^ALTER TRIGGER * ON * -> RENAME TO
^CREATE INDEX|UNIQUE ** ON * -> ( | USING
^CREATE INDEX|UNIQUE ** ON * ( -> <column>
^CREATE INDEX|UNIQUE ** ON * ( ** , -> <column>
^CREATE INDEX|UNIQUE ** USING -> btree | hash
^CREATE INDEX|UNIQUE ** USING * -> (
^CREATE INDEX|UNIQUE ** USING * ( -> <column>
^CREATE INDEX|UNIQUE ** USING * ( ** , -> <column>
^CREATE SCHEMA ** AUTHORIZATION -> <role>
^CREATE TABLE * -> ( | PARTITION OF
^CREATE TABLE * PARTITION OF -> <table>
^CREATE TABLE * PARTITION OF * -> DEFAULT | FOR VALUES
^CREATE TABLE * PARTITION OF * FOR VALUES -> FROM ( | IN ( | WITH (
^CREATE TABLE ** REFERENCES -> <table>
^CREATE TABLE * AS -> SELECT | TABLE | VALUES ( | WITH
^CREATE TABLE ** (|, PRIMARY|FOREIGN -> KEY
^CREATE TABLE ** (|, UNIQUE|CHECK -> (
^CREATE TABLE * ( * -> <type>
^CREATE TABLE * ( ** , * -> <type>
^CREATE TABLE * ( * * -> {_COLUMN}
^CREATE TABLE * ( ** , * * -> {_COLUMN}
^CREATE TABLE ** PRIMARY -> KEY
^CREATE TABLE ** NOT -> NULL
^CREATE TABLE ** ) -> INHERITS ( | PARTITION BY
^CREATE TABLE ** PARTITION BY -> HASH ( | LIST ( | RANGE (
^CREATE TABLE ** INHERITS ( -> <table>
^CREATE VIEW * -> AS
^CREATE VIEW|REPLACE ** AS -> SELECT | TABLE | VALUES ( | WITH

^COMMENT -> ON
^COMMENT ON -> COLUMN | CONSTRAINT | DATABASE | DOMAIN | FUNCTION | INDEX | MATERIALIZED VIEW | PROCEDURE \
| PUBLICATION | ROLE | SCHEMA | SEQUENCE | SUBSCRIPTION | TABLE | TRIGGER | TYPE | VIEW
^COMMENT ON COLUMN -> <qualified column>
^COMMENT ON DOMAIN -> <domain>
^COMMENT ON TYPE -> <own type>
^COMMENT ON TRIGGER -> <trigger>
^COMMENT ON TABLE -> <table>
^COMMENT ON FUNCTION|PROCEDURE|ROUTINE -> <routine>
^COMMENT ON PUBLICATION -> <publication>
^COMMENT ON SUBSCRIPTION -> <subscription>
^COMMENT ON SCHEMA -> <schema>
^COMMENT ON ROLE -> <role>
^COMMENT ON DATABASE -> <database>
^COMMENT ON INDEX -> <index>
^COMMENT ON VIEW -> <view>
^COMMENT ON MATERIALIZED -> VIEW
^COMMENT ON MATERIALIZED VIEW -> <matview>
^COMMENT ON MATERIALIZED VIEW * -> IS
^COMMENT ON SEQUENCE -> <sequence>
^COMMENT ON * * -> IS
^GRANT|REVOKE -> {_PRIVILEGES}
^GRANT|REVOKE ** , -> {_PRIVILEGES}
^GRANT|REVOKE ** ON -> <relation> | ALL TABLES IN SCHEMA | DATABASE | SCHEMA | TABLE
^GRANT|REVOKE ** ON SCHEMA -> <schema>
^GRANT|REVOKE ** IN SCHEMA -> <schema>
^GRANT|REVOKE ** ON DATABASE -> <database>
^GRANT|REVOKE ** ON TABLE -> <relation>
^GRANT ** TO -> <role> | CURRENT_USER | PUBLIC
^REVOKE ** FROM -> <role> | CURRENT_USER | PUBLIC
^GRANT ** ON * -> TO
^GRANT ** ON * * -> TO
^REVOKE ** ON * -> FROM
^REVOKE ** ON * * -> FROM
^REASSIGN -> OWNED BY
^REASSIGN OWNED BY -> <role>
^REASSIGN OWNED BY * -> TO
^REASSIGN OWNED BY * TO -> <role>
^DEALLOCATE -> <prepared> | ALL | PREPARE
^DEALLOCATE PREPARE -> <prepared> | ALL
^EXECUTE -> <prepared>
^EXPLAIN -> ( | ANALYZE | VERBOSE | {_EXPLAINED}
^EXPLAIN ANALYZE|VERBOSE -> VERBOSE | {_EXPLAINED}
^EXPLAIN ANALYZE VERBOSE -> {_EXPLAINED}
^EXPLAIN ( ** FORMAT -> JSON | TEXT | XML | YAML
^EXPLAIN ( -> ANALYZE | COSTS | FORMAT | SUMMARY | TIMING | VERBOSE
^EXPLAIN ( ** , -> ANALYZE | COSTS | FORMAT | SUMMARY | TIMING | VERBOSE
^EXPLAIN ( ** ANALYZE|COSTS|SUMMARY|TIMING|VERBOSE -> OFF | ON
^EXPLAIN ( ** ) -> {_EXPLAINED}
^DECLARE * -> ASENSITIVE | BINARY | CURSOR | INSENSITIVE | NO SCROLL | SCROLL
^DECLARE ** CURSOR -> FOR | WITH HOLD FOR | WITHOUT HOLD FOR
^DECLARE ** FOR -> SELECT | VALUES | WITH
^FETCH|MOVE -> ABSOLUTE | ALL | BACKWARD | FIRST | FORWARD | LAST | NEXT | PRIOR | RELATIVE
^FETCH|MOVE ** FROM|IN -> <cursor>
^FETCH|MOVE * -> FROM | IN
^CLOSE -> <cursor> | ALL
^PREPARE * -> ( | AS
^PREPARE ** AS -> DELETE FROM | INSERT INTO | MERGE INTO | SELECT | UPDATE | VALUES | WITH
^LISTEN|NOTIFY -> <channel>
^UNLISTEN -> <channel> | *
^LOCK -> <table> | ONLY | TABLE
^LOCK TABLE -> <table> | ONLY
^LOCK ** IN -> ACCESS EXCLUSIVE MODE | ACCESS SHARE MODE | EXCLUSIVE MODE | ROW EXCLUSIVE MODE | ROW SHARE MODE \
| SHARE MODE | SHARE ROW EXCLUSIVE MODE | SHARE UPDATE EXCLUSIVE MODE
^LOCK ** MODE -> NOWAIT
^LOCK TABLE|ONLY * -> IN | NOWAIT
^LOCK * -> IN | NOWAIT
^REINDEX -> ( | DATABASE | INDEX | SCHEMA | SYSTEM | TABLE
^REINDEX (|, -> CONCURRENTLY | TABLESPACE | VERBOSE
^REINDEX ** INDEX -> <index> | CONCURRENTLY
^REINDEX ** TABLE -> <table> | CONCURRENTLY
^REINDEX ** SCHEMA -> <schema> | CONCURRENTLY
^REINDEX ** DATABASE|SYSTEM -> <database> | CONCURRENTLY
^REINDEX ** INDEX CONCURRENTLY -> <index>
^REINDEX ** TABLE CONCURRENTLY -> <table>
^REINDEX ** SCHEMA CONCURRENTLY -> <schema>
^REINDEX ** DATABASE|SYSTEM CONCURRENTLY -> <database>
^SET -> <setting> | LOCAL | ROLE | SESSION | SESSION AUTHORIZATION | TIME ZONE | TRANSACTION
^SET ROLE -> <role> | NONE
^SET SESSION AUTHORIZATION -> <role> | DEFAULT
^SET SESSION|LOCAL -> <setting> | AUTHORIZATION | CHARACTERISTICS AS TRANSACTION
^SET TRANSACTION -> {_ISOLATION}
^SET * -> TO
^SET TIME ZONE -> <time zone> | DEFAULT | LOCAL
^SET ** TO|= -> <value> | DEFAULT
^ALTER SYSTEM|DATABASE|ROLE|USER ** SET ** TO|= -> <value> | DEFAULT
^ALTER DATABASE|ROLE|USER ** SET -> <setting>
^ALTER DATABASE|ROLE|USER ** RESET -> <setting> | ALL
^ALTER DATABASE|ROLE|USER ** SET * -> TO
^ALTER SYSTEM SET -> <setting>
^ALTER SYSTEM SET * -> TO
^ALTER SYSTEM RESET -> <setting> | ALL
^RESET|SHOW -> <setting> | ALL
^BEGIN|START -> TRANSACTION | {_ISOLATION}
^BEGIN|START TRANSACTION -> {_ISOLATION}
^BEGIN|START|SET ** ISOLATION LEVEL -> READ COMMITTED | REPEATABLE READ | SERIALIZABLE
^ROLLBACK -> AND CHAIN | TO SAVEPOINT
^ROLLBACK TO -> <savepoint> | SAVEPOINT
^ROLLBACK TO SAVEPOINT -> <savepoint>
^COMMIT -> AND CHAIN
^RELEASE -> <savepoint> | SAVEPOINT
^RELEASE SAVEPOINT -> <savepoint>
^TRUNCATE -> <table> | ONLY | TABLE
^TRUNCATE TABLE|ONLY -> <table>
^TRUNCATE ** , -> <table>
^TRUNCATE ** -> CASCADE | CONTINUE IDENTITY | RESTART IDENTITY | RESTRICT
^VACUUM -> <table> | ( | ANALYZE | FULL | VERBOSE
^VACUUM ( -> ANALYZE | FULL | VERBOSE
^VACUUM ( ** , -> ANALYZE | FULL | VERBOSE
^VACUUM ** ) -> <table>
^VACUUM FULL|VERBOSE|ANALYZE -> <table> | ANALYZE | VERBOSE
^ANALYZE -> <table> | VERBOSE
^ANALYZE VERBOSE -> <table>
^CLUSTER -> <table>
^DISCARD -> ALL | PLANS | SEQUENCES | TEMP

MERGE -> INTO
MERGE INTO -> <relation>
MERGE INTO * -> AS | USING
MERGE INTO * AS * -> USING
MERGE INTO ** USING -> <relation>
MERGE INTO ** USING * -> AS | ON
MERGE INTO ** USING * AS * -> ON
WHEN MATCHED -> AND | THEN
WHEN NOT -> MATCHED
WHEN NOT MATCHED -> AND | BY | THEN
WHEN NOT MATCHED BY -> SOURCE | TARGET
MATCHED BY SOURCE|TARGET -> AND | THEN
NOT MATCHED THEN -> DO NOTHING | INSERT
NOT MATCHED AND ** THEN -> DO NOTHING | INSERT
NOT MATCHED BY TARGET THEN -> DO NOTHING | INSERT
NOT MATCHED BY TARGET AND ** THEN -> DO NOTHING | INSERT
^MERGE ** MATCHED ** THEN INSERT -> ( | DEFAULT VALUES | OVERRIDING | VALUES (
^MERGE ** MATCHED ** THEN -> DELETE | DO NOTHING | UPDATE SET
^MERGE ** ON ** WHEN -> MATCHED | NOT MATCHED
^MERGE ** ON -> <condition> | <expression>
^MERGE ** ON * -> WHEN MATCHED | WHEN NOT MATCHED
^MERGE ** ON * =|<|> * -> WHEN MATCHED | WHEN NOT MATCHED
^MERGE ** UPDATE SET|, -> <column>
"""

STATEMENTS = (
    "ABORT", "ALTER", "ANALYZE", "BEGIN", "CALL", "CHECKPOINT", "CLOSE", "COMMENT", "COMMIT", "COPY", "CREATE",
    "DEALLOCATE", "DECLARE", "DELETE FROM", "DISCARD", "DO", "DROP", "END", "EXECUTE", "EXPLAIN", "FETCH", "GRANT",
    "INSERT INTO", "LISTEN", "LOCK", "MERGE INTO", "MOVE", "NOTIFY", "PREPARE", "REASSIGN", "REFRESH", "REINDEX",
    "RELEASE", "RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT", "SET", "SHOW", "START", "TABLE", "TRUNCATE",
    "UNLISTEN", "UPDATE", "VACUUM", "VALUES", "WITH",
)  # fmt: skip


@lru_cache(maxsize=1)
def _compiled() -> list[tuple[re.Pattern[str], tuple[str, ...]]]:
    rules = []
    for line in _RULES.splitlines():
        if line:
            pattern, _, following = line.partition(" -> ")
            rules.append((_pattern(pattern), tuple(part.strip() for part in following.split(" | "))))
    return rules


def _pattern(pattern: str) -> re.Pattern[str]:
    r"""The pattern as a regular expression over words that each end in a line feed."""
    anchored = pattern.startswith("^")
    out = []
    for word in pattern.removeprefix("^").split(" "):
        if word == "**":
            out.append(r"(?:[^\n]+\n)*")
        else:
            choices = "|".join(r"[^\n]+" if choice == "*" else re.escape(choice) for choice in word.split("|"))
            out.append(rf"(?:{choices})\n")
    return re.compile(("^" if anchored else r"(?:^|\n)") + "".join(out) + r"\Z", re.IGNORECASE)


def following(words: Sequence[str]) -> tuple[str, ...] | None:
    """The candidates after these words of a statement; None: no rule matches."""
    text = "".join(word + "\n" for word in words)
    for pattern, candidates in _compiled():
        if pattern.search(text):
            return candidates
    return None
