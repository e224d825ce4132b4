"""Records the modules that commands load: sets.py PYTHON OUT.json, in a checkout."""
import json, os, subprocess, sys, tempfile, pathlib
py, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]); root = os.getcwd()
PROBE = """
import atexit, json, sys, os
def keep():
    with open(os.environ["SETS"], "w") as f: json.dump(sorted(sys.modules), f)
atexit.register(keep)
from pgrepl.cli import main
main(sys.argv[1:])
"""
d = tempfile.mkdtemp(); os.chdir(d); res = []
env = {**os.environ, "PYTHONPATH": root, "SETS": d + "/sets.json"}
def run(*args, stdin=None, timeout=120, quiet=False):
    pathlib.Path(d + "/sets.json").unlink(missing_ok=True)
    r = subprocess.run([py, "-c", PROBE, *args], input=stdin, capture_output=True, text=True, env=env, timeout=timeout)
    try: got = json.load(open(d + "/sets.json"))
    except OSError: print("no set:", args, r.stderr[-300:]); return
    res.append(got)
    print(len([m for m in got if m.startswith("pgrepl")]), args[:4], r.returncode, r.stderr[-150:].replace("\n", " ") if r.returncode else "")
os.mkdir("a"); os.mkdir("b"); os.mkdir("c")
S = "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric, d timestamptz);"
run("-X", "-q", "--catalog", "a/catalog.db", stdin=S)
C = ("-X", "-q", "--catalog", "a/catalog.db")
for c in [r"\dRp+", r"\d t", r"\dRs+", r"\d+", r"\dt", "SELECT 1", "SELECT pubname FROM pg_publication", "CREATE PUBLICATION p FOR TABLE t WHERE (a > 1)", "INSERT INTO t VALUES (2, 'x', 1.5, now())", "INSERT INTO t VALUES (3, 'x', 1.5, now()), (4, 'y', 1, NULL)", "SELECT * FROM t WHERE a > 2", "SELECT b, count(*), sum(a) FROM t GROUP BY b ORDER BY 1", "UPDATE t SET b = 'z' WHERE a = 2", "DELETE FROM t WHERE a = 2", "COPY t TO STDOUT", "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t; COMMIT", "EXPLAIN SELECT * FROM t", "ALTER TABLE t ADD COLUMN e int", "CREATE ROLE r LOGIN PASSWORD 'x'", "GRANT SELECT ON t TO r", "CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql AS 'SELECT x + 1'", "SELECT f(a) FROM t", "CREATE FUNCTION g() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'", "SELECT g()", "CREATE VIEW v AS SELECT a FROM t", "SELECT * FROM v", r"\df", r"\h CREATE PUBLICATION", r"\?", "SHOW work_mem", "VACUUM t", "ANALYZE t", "CREATE INDEX i ON t (b)", "SET pgrepl.x = 1", "SELECT * FROM pg_stat_subscription", "TRUNCATE t", "CREATE TYPE mood AS ENUM ('a', 'b')", "CREATE DOMAIN pos AS int CHECK (VALUE > 0)", "CREATE SCHEMA s", "DROP SCHEMA s", "EXECUTE nothing"]:
    run(*C, "-c", c)
run("-X", "-q", "--catalog", "b/catalog.db", "-c", S, "-c", "CREATE SUBSCRIPTION s CONNECTION 'catalog=a/catalog.db' PUBLICATION p") if False else None
run("-X", "-q", "--catalog", "b/catalog.db", stdin=S + f"\nALTER TABLE t ADD COLUMN e int;\nCREATE SUBSCRIPTION s CONNECTION '{d}/a/catalog.db' PUBLICATION p;")
for a in [["status", "--catalog", "b/catalog.db"], ["sync", "--catalog", "b/catalog.db"], ["apply", "--catalog", "b/catalog.db"], ["apply", "--help"], ["standby", "--help"], ["--help"], ["dump", "--catalog", "a/catalog.db"], ["describe", "tables", "--json", "--catalog", "a/catalog.db"], ["describe", "publications", "--catalog", "a/catalog.db"]]:
    run(*a)
run(*C, "-c", "INSERT INTO t SELECT g, g::text, g, now() FROM generate_series(1, 300) g")
run("apply", "--catalog", "b/catalog.db"); run("apply", "--catalog", "b/catalog.db")
run(*C, "-c", "INSERT INTO t SELECT g, g::text, g, now() FROM generate_series(1000, 60000) g")
run("apply", "--catalog", "b/catalog.db")
run(*C, "-c", "SELECT count(*), sum(a), max(b) FROM t")
run(*C, "-c", "SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 DESC LIMIT 3")
run(*C, "-c", "UPDATE t SET b = b || 'x' WHERE a % 2 = 0"); run(*C, "-c", "DELETE FROM t WHERE a % 3 = 0")
run("apply", "--catalog", "b/catalog.db")
run(*C, "-c", "VACUUM t"); run(*C, "-c", "COPY t TO STDOUT"); run(*C, "-c", "COPY t TO '/dev/null' (FORMAT csv)")
open("rows.csv", "w").write("".join(f"{i},x,1,\n" for i in range(100000, 140000)))
run(*C, "-c", f"COPY t (a, b, c, d) FROM '{d}/rows.csv' (FORMAT csv)")
run("sync", "--catalog", "b/catalog.db"); run("status", "--json", "--catalog", "b/catalog.db")
run(*C, "-c", "SET pgrepl.engine = 'spark'; SELECT count(*) FROM t", timeout=200)

os.mkdir("e"); E = ("-X", "-q", "--catalog", "e/catalog.db")
run(*E, stdin="CREATE TABLE t (a int PRIMARY KEY);\nCREATE PUBLICATION p FOR TABLE t WHERE (a > 1);\nINSERT INTO t VALUES (1);")
for c in [r"\d t", r"\dRp+", r"\dRs+", "SELECT 1", "SELECT pubname FROM pg_publication", r"\d+ t", r"\dp", r"\du", r"\l", r"\dn", r"\dT", r"\df f", r"\dv", r"\set", "SELECT version()", "SELECT current_user, pg_table_size('t')", "SELECT * FROM information_schema.tables LIMIT 1", "SELECT * FROM pg_class LIMIT 1", "SELECT * FROM pg_stat_activity", "SELECT * FROM pg_settings LIMIT 1", "SELECT pg_get_publication_tables('p')", "SELECT generate_series(1, 3)", "SELECT now()", "SELECT '{}'::jsonb"]: run(*E, "-c", c)
run("status", "--catalog", "e/catalog.db"); run("standby", "sync", "--help"); run("serve", "--help"); run("compare", "--help"); run("iceberg", "--help"); run("backup", "--help"); run("check", "--help")
import signal, time
def stopped(*args, after=6):
    pathlib.Path(d + "/sets.json").unlink(missing_ok=True)
    p = subprocess.Popen([py, "-c", PROBE, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)
    time.sleep(after); p.send_signal(signal.SIGINT)
    try: _, err = p.communicate(timeout=20)
    except subprocess.TimeoutExpired: p.kill(); err = "killed"
    try: got = json.load(open(d + "/sets.json"))
    except OSError: print("no set:", args, err[-300:]); return
    res.append(got); print(len([m for m in got if m.startswith("pgrepl")]), args[:4], p.returncode, err[-100:])
stopped("serve", "--catalog", "a/catalog.db")
stopped("apply", "--follow", "--catalog", "b/catalog.db")
json.dump(res, open(out, "w"))
