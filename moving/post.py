"""What names modules by parts of their names, after the move."""
import pathlib, re, sys
MAP = {}
for p in sys.argv[1:]:
    for line in open(p):
        if line.strip() and not line.startswith("#"):
            a, b = line.split()[:2]; MAP.setdefault(a, b)
        elif line.startswith("#package "): a, b = line.split()[1:3]; MAP.setdefault(a, b)
def path(m):
    q = pathlib.Path(m.replace(".", "/"))
    return q / "__init__.py" if q.is_dir() else q.with_suffix(".py")
def sub(m, *pairs):
    p = path(m) if "/" not in m and not m.startswith(".") and m != "Makefile" and not m.endswith(".py") else pathlib.Path(m)
    t = p.read_text()
    for a, b in pairs:
        if a not in t: print("NOT THERE", p, a); continue
        t = t.replace(a, b)
    p.write_text(t)
def table(module, start, end, old, new, quote='"{}"'):
    """In the text between start and end each quoted name of a module of `old` becomes its name below `new`, once."""
    p = path(module); t = p.read_text(); i = t.index(start); j = t.index(end, i)
    seen = []
    def one(m):
        n = MAP[f"{old}.{m.group(1)}"].removeprefix(new + ".")
        if n in seen: return ""
        seen.append(n); return f'"{n}"'
    block = re.sub(r'"([a-z_0-9.]+)"', one, t[i:j])
    block = re.sub(r",(\s*,)+", ",", block); block = re.sub(r"\n\s*,", "\n", block); block = re.sub(r"\(\s*,", "(", block)
    p.write_text(t[:i] + block + t[j:])
sub("pgrepl.expr.functions.documents.jsonpath_methods", (", methods, ", ", "))
t = path("pgrepl.backend").read_text()
t = re.sub(r"    from pgrepl\.replication import functions as emit_message\n\n    yield emit_message\.implements\n\n", "", t)
t = re.sub(r"    yield emit_message\.implements\n\n", "", t)
path("pgrepl.backend").write_text(t)
table("pgrepl.expr.functions", "FAMILIES = (", "\n)", "pgrepl.expr.functions", "pgrepl.expr.functions")
table("pgrepl.sql.nodes", "_FAMILIES = (", "\n)", "pgrepl.sql.nodes", "pgrepl.sql.nodes")
t = path("pgrepl.sql.nodes").read_text(); t = re.sub(r"(# noqa: F403)(  # noqa: F403)+", r"\1", t); path("pgrepl.sql.nodes").write_text(t)
table("pgrepl.sql.building", "FAMILIES = (", "\n)", "pgrepl.sql.build", "pgrepl.sql.building")
sub("pgrepl.sql.parser", ('{__package__}.build.{family}', '{__package__}.building.{family}'))
t = path("pgrepl.expr.exchange").read_text()
def once(m):
    out = []
    for w in re.findall(r"\w+", m.group(1)):
        if w not in out: out.append(w)
    return "FAMILIES = (" + ", ".join(out) + ")"
def nodes(m): return "NODES = (" + once(m)[len("FAMILIES = ("):].replace("compile_logic, ", "")
t2 = path("pgrepl.expr.evaluate.evaluate").read_text(); path("pgrepl.expr.evaluate.evaluate").write_text(re.sub(r"NODES = \(([^)]*)\)", nodes, t2))
path("pgrepl.expr.exchange").write_text(re.sub(r"FAMILIES = \(([^)]*)\)", once, t))
sub("pgrepl.types.text", ('    "datetime": (', '    "times.datetime": ('), ('    "interval": (', '    "times.interval": ('), ('oids.INTERVAL: "interval_input"', 'oids.INTERVAL: "times.interval_input"'))
t = pathlib.Path("pgrepl/__init__.py").read_text()
t = t.replace('''    ),
    "pep249_types": (
''', '').replace('    "facts": ("Publication", "PublishedTable"),\n    "replication": ("Progress",', '    "replication": ("Progress", "Publication", "PublishedTable",')
pathlib.Path("pgrepl/__init__.py").write_text(t)
# backslash commands
p = path("pgrepl.shell.backslash"); t = p.read_text()
i = t.index("MODULES = {"); j = t.index("}  # fmt: skip", i)
ns = {}; exec(t[i:j + 1], ns)
out = {}
for m, names in ns["MODULES"].items():
    new = MAP[f"pgrepl.shell.backslash.{m}"].rsplit(".", 1)[1]
    out[new] = out.get(new, ()) + tuple(names)
import textwrap
body = "MODULES = {\n"
for m, names in out.items():
    words = ", ".join(f'"{n}"' for n in names) + ("," if len(names) == 1 else "")
    line = f'    "{m}": ({words}),'
    body += (line if len(line) <= 118 else f'    "{m}": (\n' + textwrap.fill(words + ",", 116, initial_indent="        ", subsequent_indent="        ", break_on_hyphens=False, break_long_words=False) + "\n    ),") + "\n"
t = t[:i] + body + t[j:]
t = t.replace('_BRANCHING = MODULES["branches"]', '_BRANCHING = ("if", "elif", "else", "endif")')
for m in ("describing", "refused", "copying"):
    new = MAP[f"pgrepl.shell.backslash.{m}"].rsplit(".", 1)[1]
    t = t.replace(f'module, name = "{m}"', f'module, name = "{new}"').replace(f'module = "{m}"', f'module = "{new}"').replace(f'module == "{m}"', f'module == "{new}"')
p.write_text(t)
sub("pgrepl.engine.on_spark", ("parents[2]", "parents[1]"))
sub("Makefile", ("-m pgrepl.catalog.ddl", "-m pgrepl.catalog.store.ddl")) if "-m pgrepl.catalog.ddl" in pathlib.Path("Makefile").read_text() else None
sub("hatch_build.py", ("from pgrepl.catalog import ddl, declarative", "from pgrepl.catalog.store import ddl, declarative")) if "from pgrepl.catalog import ddl, declarative" in pathlib.Path("hatch_build.py").read_text() else None
sub(".gitignore", ("/pgrepl/catalog/empty.db", "/pgrepl/catalog/store/empty.db"))
p = pathlib.Path("tests/house/test_floors.py"); t = p.read_text().replace('"pgrepl.frozen.frozen"', '"pgrepl.ground.frozen.frozen"')
i = t.index("FLOORS = {"); j = t.index("}", i)
lines = [l for l in t[i:j].split("\n") if not re.search(r'"(ahead|memory|instrument|interrupts|thread_pool|file_watch|jobs|errors|frozen)":', l)]
t = t[:i] + "\n".join(lines).replace('    "__init__": -4,', '    "ground": -1,\n    "__init__": -4,') + t[j:]
t = t.replace('    "ground": -1,\n    "ground": -1,', '    "ground": -1,')
p.write_text(t)
p = pathlib.Path("tests/house/test_floors.py"); t = p.read_text()
p.write_text(t.replace('OF_SPARK = tuple(f"api/datasource/{name}.py" for name in ("source", "readers", "stream_reader", "writers"))', 'OF_SPARK = ("api/datasource/source.py",)'))
