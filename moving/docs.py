"""docs/architecture.md and house.svg after the move."""
import pathlib, re, sys
from itertools import groupby
MAP = {}
for p in sys.argv[1:]:
    for line in open(p):
        if line.strip() and not line.startswith("#"):
            a, b = line.split()[:2]; MAP.setdefault(a, b)
        elif line.startswith("#package "): a, b = line.split()[1:3]; MAP.setdefault(a, b)
p = pathlib.Path("docs/architecture.md"); t = p.read_text(); lines = t.split("\n"); out = []; i = 0; seen = set(); buffer = []
journey = False
def flush():
    global buffer
    for room, names in groupby(buffer, lambda m: m.rpartition(".")[0]):
        out.append((room.removeprefix("pgrepl").lstrip(".").replace(".", "/") or "cli") + " " + " ".join(n.rpartition(".")[2] for n in names))
    buffer = []
for l in lines:
    if l.startswith("### "): journey = True; seen = set()
    if journey and re.fullmatch(r"[\w/]+( \w+)+", l.strip()):
        room, *names = l.split()
        for n in names:
            old = ("pgrepl." + (room.replace("/", ".") + "." if room != "cli" else "") + n)
            new = MAP.get(old, old)
            if new not in seen: seen.add(new); buffer.append(new)
    else: flush(); out.append(l)
flush()
t = "\n".join(out)
t = t.replace("| `engine.py` | which engine does a statement, a copy or a batch, decided once |\n", "")
t = re.sub(r"\| `processes.py` \|.*\n", "", t)
t = t.replace("| `lake/` | DuckLake tables: scan, stage, commit, what changed, upkeep; kernels over Arrow and where they run; the one Spark session |",
"| `engine/` | which engine does a statement, a copy or a batch, decided once (`choice.py`); kernels over Arrow and where they run; the one Spark session, and tables as its DataFrames |\n| `lake/` | DuckLake tables, without Spark: `define/`, `read/`, `write/`, `commit/`, what changed (`changes/`), `upkeep/` |")
t = t.replace("`libpq/` connection strings; ", "`conninfo.py` and `endpoints.py` connection strings; ").replace("`standby/`; `backup/` |", "`standby/`; `backup.py` |")
t = t.replace("| `replication/backup/` |", "| `replication/backup.py` |").replace("`iceberg/schema.py`, `iceberg/schema.py`", "`iceberg/schema.py`").replace("| `engine.py`; how much", "| `engine/choice.py`; how much")
t = t.replace("| `internals/` | what is used of pyspark", "| `ground/` | what every room stands on: errors, frozen dataclasses, interrupts, memory, threads, processes that end with this one |\n| `internals/` | what is used of pyspark")
t = t.replace("| `catalog/` | system tables, sessions, transactions, locks, settings, look-ups |", "| `catalog/` | system tables (`store/`), sessions and their settings and transactions (`session/`), `locks/`, look-ups (`facts/`) |")
t = t.replace("| `expr/` | expressions: analysed once; then evaluated, printed, or compiled to Spark SQL and to Arrow |", "| `expr/` | expressions: analysed once (`analyse/`); then evaluated (`evaluate/`), printed (`print/`), or compiled to Arrow (`arrow/`) and to Spark SQL (`exchange/`) |")
p.write_text(t)
p = pathlib.Path("docs/house.svg"); s = p.read_text()
s = s.replace('>engine.py</text><text class="s" x="125" y="528">this process or Spark</text>', '>engine/</text><text class="s" x="125" y="528">this process or Spark</text>').replace("DuckLake tables, Spark", "DuckLake tables")
s = s.replace('y="744">adapters of libraries</text>', 'y="744">adapters; ground/ below</text>') if ">ground/<" in s else s
p.write_text(s)
