#!/usr/bin/env python3
"""hoist.py SETS.json [--dry]: imports inside of functions go to the module's head where no recorded command loads more for it."""
import ast, collections, json, pathlib, sys
src = open("moving/house.py").read().rsplit("\nmain()\n", 1)[0]
exec(compile(src, "house.py", "exec"))
MAP = {}
for m in [a for a in sys.argv[2:] if not a.startswith("--")]:
    for line in open(m):
        if line.strip() and not line.startswith("#"): a, b = line.split()[:2]; MAP.setdefault(a, b)
        elif line.startswith("#package "): a, b = line.split()[1:3]; MAP.setdefault(a, b)
def parents(n): return {n} if not n.startswith("pgrepl") else {".".join(n.split(".")[:i]) for i in range(1, n.count(".") + 2)}
sets = [frozenset(x for s2 in s for x in parents(MAP.get(s2, s2))) for s in json.load(open(sys.argv[1]))]
HEAVY = {"pyspark", "py4j", "prompt_toolkit", "rich", "psycopg", "pandas", "duckdb", "sqlalchemy", "click", "lark", "pyarrow", "numpy", "ssl", "asyncio"}
every = frozenset().union(*sets)
loaded_in = {}
def where(m): return frozenset(i for i, s in enumerate(sets) if m in s)
files = {modname(p): File(p) for p in pyfiles("pgrepl")}
done = left = 0
reasons = collections.Counter()
for name, f in files.items():
    mine = where(name)
    head = {}
    for n, s in f.res.scope_of_import.items():
        if s is f.res.top and not is_type_checking(f.parent.get(n)):
            for a in n.names: head[a.asname or a.name.split(".")[0]] = (getattr(n, "module", None), a.name, a.asname)
    checked = {}
    for n, s in f.res.scope_of_import.items():
        if is_type_checking(f.parent.get(n)):
            for a in n.names: checked[a.asname or a.name] = (n, (getattr(n, "module", None), a.name, a.asname))
    new_heads, drop_checked = [], collections.defaultdict(set)
    for n, s in sorted(f.res.scope_of_import.items(), key=lambda x: x[0].lineno):
        if s is f.res.top or isinstance(s.node, ast.ClassDef): continue
        par = f.parent[n]
        if b"noqa" in f.raw[f.starts[n.lineno - 1]:f.starts[n.end_lineno]]: left += 1; reasons["noqa"] += 1; continue
        if isinstance(par, ast.Try): left += 1; reasons["try"] += 1; continue
        keep, go = [], []
        for a in n.names:
            bound = a.asname or a.name.split(".")[0]
            module = getattr(n, "module", None) or a.name
            full = f"{module}.{a.name}" if isinstance(n, ast.ImportFrom) else a.name
            target = full if full in files else module
            what = (getattr(n, "module", None), a.name, a.asname)
            ok = True; why = ""
            root = target.split(".")[0]
            if head.get(bound) == what: go.append((a, False)); continue
            if bound in head or (bound in f.res.top.bound and bound not in checked): ok, why = False, "name taken"
            elif root == "pgrepl":
                t = where(target)
                if target == "pgrepl": ok = False; why = "root"
                elif not mine <= t: ok, why = False, "colder"
                elif not mine and len(t) < 0.4 * len(sets) and target.rsplit(".", 1)[0] != name.rsplit(".", 1)[0]: ok, why = False, "unmeasured"
            elif root in HEAVY or root not in sys.stdlib_module_names:
                if not (root in ("pyarrow", "numpy") and mine and mine <= where(root)): ok, why = False, "heavy " + root
            else:
                if not mine <= where(target): ok, why = False, "stdlib"
            outer = s.parent
            while ok and outer is not None and outer is not f.res.top:
                if bound in outer.bound: ok, why = False, "outer scope"
                outer = outer.parent
            if ok and hasattr(builtins, bound): ok, why = False, "builtin"
            # another function binds the same name otherwise?
            if ok:
                for m2, s2 in f.res.scope_of_import.items():
                    if s2 is not f.res.top and m2 is not n:
                        for b in m2.names:
                            if (b.asname or b.name.split(".")[0]) == bound and (getattr(m2, "module", None), b.name, b.asname) != what: pass
                if bound in checked and checked[bound][1] != what: ok, why = False, "checked otherwise"
            (go if ok else keep).append((a, True) if ok else a)
            if not ok: reasons[why] += 1
        if not go: left += 1; continue
        done += 1
        for a, fresh in go:
            bound = a.asname or a.name.split(".")[0]; what = (getattr(n, "module", None), a.name, a.asname)
            if fresh and bound not in head:
                head[bound] = what
                new_heads.append((f"from {n.module} import {a.name}" if isinstance(n, ast.ImportFrom) else f"import {a.name}") + (f" as {a.asname}" if a.asname else ""))
            if bound in checked and checked[bound][1] == what: drop_checked[checked[bound][0]].add(bound)
        if keep:
            left += 1
            x, y = f.span(n)
            f.edits.append((x, y, ((f"from {n.module} import " if isinstance(n, ast.ImportFrom) else "import ") + ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in keep)).encode()))
        else:
            x = f.starts[n.lineno - 1]; y = f.span(n)[1]; e = f.raw.find(b"\n", y); y = len(f.raw) if e < 0 else e + 1
            siblings = next(b for b in (getattr(par, k, []) for k in ("body", "orelse", "finalbody")) if n in b)
            doc = [b for b in siblings if b is not n and not (isinstance(b, ast.Expr) and isinstance(b.value, ast.Constant))]
            if not doc: x, y2 = f.span(n); f.edits.append((x, y2, b"pass"))
            else:
                # the blank line behind it goes, too
                if f.raw[y:y+1] == b"\n": y += 1
                f.edits.append((x, y, b""))
    if drop_checked:
        block = None
        for n, names in drop_checked.items():
            rest = [a for a in n.names if (a.asname or a.name) not in names]
            par = f.parent[n]
            if rest:
                x, y = f.span(n)
                f.edits.append((x, y, (f"from {n.module} import " + ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in rest)).encode()))
            else:
                x = f.starts[n.lineno - 1]; y = f.span(n)[1]; e = f.raw.find(b"\n", y)
                others = [b for b in par.body if b is not n and not (b in drop_checked and not [a for a in b.names if (a.asname or a.name) not in drop_checked[b]])]
                if others: f.edits.append((x, e + 1, b""))
                elif n is par.body[0]: f.edits.append((f.starts[par.lineno - 1], f.raw.find(b"\n", f.span(par)[1]) + 1, b""))
    if new_heads:
        at = None
        for st in f.tree.body:
            if isinstance(st, ast.ImportFrom) and st.module == "__future__": at = st
        if at is None: at = f.tree.body[0]
        e = f.raw.find(b"\n", f.span(at)[1]) + 1
        f.edits.append((e, e, ("\n" + "\n".join(new_heads) + "\n").encode()))
    if f.edits and "--dry" not in sys.argv: f.path.write_text(f.new_text(), encoding="utf-8")
print("moved", done, "statements; left", left, reasons)
