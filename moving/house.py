#!/usr/bin/env python3
"""house.py [--check] MAP …: moves and merges modules of the checkout in the current folder.  house.py --names MAP … lists collisions only."""
from __future__ import annotations
import ast, builtins, collections, os, pathlib, re, subprocess, sys

ROOT = pathlib.Path(".")
TREES = ("pgrepl", "pyspark_pgrepl", "tests", "benchmarks", "examples")
NEVER = {".venv", ".git", "__pycache__", "node_modules"}


def modname(p):
    return ".".join(p.with_suffix("").parts).removesuffix(".__init__")


def pyfiles(*trees):
    for t in trees:
        b = pathlib.Path(t)
        if b.is_dir():
            yield from (p for p in sorted(b.rglob("*.py")) if not NEVER & set(p.parts))


def read_map(paths):
    m, rooms = {}, {}
    global PACKAGES, RENAMES, ALIASES, FILES, SAME
    PACKAGES = {}
    RENAMES, ALIASES, FILES, SAME = collections.defaultdict(dict), collections.defaultdict(dict), [], set()
    for path in paths:
        for line in open(path):
            line = line.rstrip()
            if line.startswith("#room "):
                _, name, text = line.split(" ", 2); rooms[name] = text
            elif line.startswith("#rename "):
                a, b = line.split()[1:3]; mod, n = a.rsplit(".", 1); RENAMES[mod][n] = b
            elif line.startswith("#alias "):
                a, b = line.split()[1:3]; mod, n = a.rsplit(".", 1)
                if not b.startswith("("): ALIASES[mod][n] = b
            elif line.startswith("#package "): a, b = line.split()[1:3]; PACKAGES[a] = b
            elif line.startswith("#same "): SAME.add(line.split()[2])
            elif line.startswith("#file "): FILES.append(line.split()[1:3])
            elif line and not line.startswith("#"):
                a, b = line.split()[:2]
                m.setdefault(a, b)
    return m, rooms


class Scope:
    def __init__(self, node, parent):
        self.node, self.parent, self.bound, self.globals = node, parent, set(), set()
        self.is_class = isinstance(node, ast.ClassDef)


class Resolver(ast.NodeVisitor):
    """For each use or binding of a name: the scope that it belongs to."""
    def __init__(self, tree):
        self.uses = []      # (name, node, scope bound in or None for a builtin/unknown)
        self.scope_of_import = {}
        self.top = Scope(tree, None)
        self.collect(self.top, tree.body)
        self.stack = self.top
        for s in tree.body: self.visit(s)

    def collect(self, scope, body):
        def walk(n):
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                scope.bound.add(n.name)
                for d in n.decorator_list: walk(d)
                return
            if isinstance(n, ast.Lambda): return
            if isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                # walrus inside binds in the enclosing function
                for x in ast.walk(n):
                    if isinstance(x, ast.NamedExpr): scope.bound.add(x.target.id)
                return
            if isinstance(n, ast.Global): scope.globals |= set(n.names)
            elif isinstance(n, ast.Nonlocal): scope.globals |= set()  ; scope.nonlocals = getattr(scope, "nonlocals", set()) | set(n.names)
            elif isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)): scope.bound.add(n.id)
            elif isinstance(n, (ast.Import, ast.ImportFrom)):
                for a in n.names: scope.bound.add(a.asname or a.name.split(".")[0])
            elif isinstance(n, ast.ExceptHandler) and n.name: scope.bound.add(n.name)
            elif isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name: scope.bound.add(n.name)
            elif isinstance(n, ast.MatchMapping) and n.rest: scope.bound.add(n.rest)
            for c in ast.iter_child_nodes(n): walk(c)
        for s in body: walk(s)
        scope.bound -= scope.globals
        scope.bound -= getattr(scope, "nonlocals", set())

    def find(self, name):
        s, first = self.stack, True
        while s:
            if name in s.globals: return self.top
            if name in s.bound and (first or not s.is_class): return s
            first = first and s.node.__class__.__name__ in () 
            first = False
            s = s.parent
        return None

    def visit_Name(self, n):
        self.uses.append((n.id, n, self.find(n.id)))

    def visit_Global(self, n):
        for x in n.names: self.uses.append((x, n, self.top))

    def _args(self, a):
        for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
            if x is not None and x.annotation: self.visit(x.annotation)
        for d in [*a.defaults, *[k for k in a.kw_defaults if k]]: self.visit(d)

    def _names(self, a):
        return {x.arg for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg] if x is not None}

    def visit_FunctionDef(self, n):
        self.uses.append((n.name, n, self.find(n.name)))
        for d in n.decorator_list: self.visit(d)
        self._args(n.args)
        if n.returns: self.visit(n.returns)
        s = Scope(n, self.stack); s.bound |= self._names(n.args); self.collect(s, n.body)
        self.stack = s
        for b in n.body: self.visit(b)
        self.stack = s.parent
    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, n):
        self._args(n.args)
        s = Scope(n, self.stack); s.bound |= self._names(n.args); self.stack = s
        self.visit(n.body); self.stack = s.parent

    def visit_ClassDef(self, n):
        self.uses.append((n.name, n, self.find(n.name)))
        for d in [*n.decorator_list, *n.bases, *[k.value for k in n.keywords]]: self.visit(d)
        s = Scope(n, self.stack); self.collect(s, n.body); self.stack = s
        for b in n.body: self.visit(b)
        self.stack = s.parent

    def _comp(self, n):
        self.visit(n.generators[0].iter)
        s = Scope(n, self.stack)
        for g in n.generators:
            for x in ast.walk(g.target):
                if isinstance(x, ast.Name): s.bound.add(x.id)
        self.stack = s
        for i, g in enumerate(n.generators):
            self.visit(g.target)
            if i: self.visit(g.iter)
            for c in g.ifs: self.visit(c)
        if isinstance(n, ast.DictComp): self.visit(n.key); self.visit(n.value)
        else: self.visit(n.elt)
        self.stack = s.parent
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comp

    def visit_Import(self, n): self.scope_of_import[n] = self.stack
    visit_ImportFrom = visit_Import


class File:
    def __init__(self, path):
        self.path, self.name = path, modname(path)
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.res = Resolver(self.tree)
        self.raw = self.text.encode()
        self.starts = [0]
        for line in self.raw.splitlines(keepends=True): self.starts.append(self.starts[-1] + len(line))
        self.import_alias = {}
        self.edits = []     # (start, end, bytes)
        self.drop_aliases = collections.defaultdict(set)   # import node -> alias dropped
        self.parent = {}
        for n in ast.walk(self.tree):
            for c in ast.iter_child_nodes(n): self.parent[c] = n

    def at(self, line, col): return self.starts[line - 1] + col
    def span(self, n): return self.at(n.lineno, n.col_offset), self.at(n.end_lineno, n.end_col_offset)

    def defs(self):
        """Names that this module itself binds at its top, but for imports."""
        imported = set()
        for n, s in self.res.scope_of_import.items():
            if s is self.res.top:
                for a in n.names: imported.add(a.asname or a.name.split(".")[0])
        return self.res.top.bound - imported

    import_alias: dict

    def imports(self, new_of, group, renames):
        """Names that are imported at the top, each with where from in the new house."""
        out = {}
        for n, s in self.res.scope_of_import.items():
            if s is not self.res.top: continue
            for a in n.names:
                bound = a.asname or a.name.split(".")[0]
                if isinstance(n, ast.Import): out[bound] = ("", a.name)
                elif f"{n.module}.{a.name}" in new_of:
                    new = new_of[f"{n.module}.{a.name}"]
                    if new != group:
                        last = new.rsplit(".", 1)[1]
                        out[a.asname or last] = ("module", new)
                else:
                    new = new_of.get(n.module, n.module)
                    if new != group: out[a.asname or renames.get(n.module, {}).get(a.name, a.name)] = (new, renames.get(n.module, {}).get(a.name, a.name))
        return out

    def name_span(self, name, node):
        if isinstance(node, ast.Name): return [self.span(node)]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            start = self.at(node.lineno, node.col_offset)
            i = re.compile(rb"(?:async\s+)?(?:def|class)\s+").match(self.raw, start).end()
            return [(i, i + len(name.encode()))]
        if isinstance(node, ast.Global):
            a, b = self.span(node)
            return [(a + m.start(), a + m.end()) for m in re.finditer(rb"\b%s\b" % name.encode(), self.raw[a:b])][:1]
        return []

    def rename(self, name, scope, new):
        for n, node, s in self.res.uses:
            if n == name and s is scope:
                for a, b in self.name_span(n, node): self.edits.append((a, b, new.encode()))
        if scope is self.res.top:   # words in strings of annotations and __all__ are left

            pass

    def new_text(self):
        out, last = [], 0
        done = set()
        for a, b, t in sorted(self.edits, key=lambda e: (e[0], e[1])):
            if (a, b, t) in done: continue
            done.add((a, b, t))
            if a < last: raise SystemExit(f"{self.path}: edits overlap at {self.raw[a-30:b+30]!r} {t!r}")
            out.append(self.retext(self.raw[last:a])); out.append(t); last = b
        out.append(self.retext(self.raw[last:]))
        return b"".join(out).decode()

    retexter = None
    def retext(self, raw):
        return File.retexter(raw.decode()).encode() if File.retexter else raw


def raw_doc(text, s):
    src = ast.get_source_segment(text, s.value)
    raw = src[0] in "rR"; src = src.lstrip("rR")
    q = 3 if src.startswith(('"""', "'''")) else 1
    return raw, src[q:-q]


def written(module, pairs):
    return f"from {module} import " + ", ".join(n if a in (None, n) else f"{n} as {a}" for n, a in pairs)


def is_type_checking(s):
    return isinstance(s, ast.If) and isinstance(s.test, ast.Name) and s.test.id == "TYPE_CHECKING" and not s.orelse and all(
        isinstance(b, (ast.Import, ast.ImportFrom)) or alias_of(b) for b in s.body)


def alias_of(b):
    if isinstance(b, ast.Assign) and len(b.targets) == 1 and isinstance(b.targets[0], ast.Name): return b.targets[0].id
    if isinstance(b, ast.AnnAssign) and isinstance(b.target, ast.Name): return b.target.id
    return None


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    check = "--check" in sys.argv
    new_of, rooms = read_map(args)
    files = {}
    for p in pyfiles(*TREES):
        f = File(p); files[f.name if p.name != "__init__.py" else f.name] = f
    house = {n: f for n, f in files.items() if n == "pgrepl" or n.startswith("pgrepl.")}
    for n, f in house.items():
        if f.path.name == "__init__.py": new_of.pop(n, None)
    inits = {}
    for a, b in PACKAGES.items():
        if a in house and house[a].path.name == "__init__.py":
            body = [x for x in house[a].tree.body if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant)) and not (isinstance(x, ast.ImportFrom) and x.module == "__future__")]
            if b in house and body: sys.exit(f"#package: both have text: {a} {b}")
            if body or b not in house: inits[a] = b
    missing = [n for n, f in house.items() if n not in new_of and f.path.name != "__init__.py"]
    unknown = [n for n in new_of if n not in house]
    if missing: print("not in the map (stay):", *missing)
    if unknown: print("in the map, not here:", *unknown)
    for n in unknown: del new_of[n]
    for n in missing: new_of[n] = n
    groups = collections.OrderedDict()
    order = {n: i for i, n in enumerate(new_of)}
    for old, new in new_of.items(): groups.setdefault(new, []).append(old)
    problems = []
    packages = {n for n, f in house.items() if f.path.name == "__init__.py"} | {g.rsplit(".", 1)[0] for g in groups}
    for g in groups:
        if any(p == g or p.startswith(g + ".") for p in {x.rsplit(".", 1)[0] for x in groups}): problems.append(f"module and folder: {g}")
    # ---- order within groups: imported at the head first (as the map has it otherwise)
    head_imports = {}
    for n in new_of:
        f = house[n]; deps = set()
        for node, s in f.res.scope_of_import.items():
            if s is f.res.top and isinstance(node, ast.ImportFrom) and node.module and not isinstance(f.parent.get(node), ast.If):
                deps.add(node.module); deps |= {f"{node.module}.{a.name}" for a in node.names}
        head_imports[n] = deps
    for g, olds in groups.items():
        if len(olds) > 1:
            out, seen = [], set()
            def put(o, path=()):
                if o in seen: return
                seen.add(o)
                for d in olds:
                    if d in head_imports[o] and d not in path: put(d, (*path, o))
                out.append(o)
            for o in olds: put(o)
            olds[:] = out
    # ---- circles in the new house
    edges = {g: set() for g in groups}
    for old, new in new_of.items():
        f = house[old]
        for node in ast.walk(f.tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for m in [node.module, *[f"{node.module}.{a.name}" for a in node.names]]:
                    t = new_of.get(m)
                    if t and t != new: edges[new].add(t)
            elif isinstance(node, ast.Import):
                for a in node.names:
                    t = new_of.get(a.name)
                    if t and t != new: edges[new].add(t)
    sys.setrecursionlimit(20000); index, low, st, on = {}, {}, [], set()
    def visit(v):
        index[v] = low[v] = len(index); st.append(v); on.add(v)
        for w in edges[v]:
            if w not in index: visit(w); low[v] = min(low[v], low[w])
            elif w in on: low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            c = []
            while not c or c[-1] != v: c.append(st.pop()); on.discard(c[-1])
            if len(c) > 1: problems.append("circle: " + " ".join(sorted(c)))
    for v in edges:
        if v not in index: visit(v)
    # ---- names that collide: renames[old module][name] = new name
    renames = collections.defaultdict(dict)
    for o, names in RENAMES.items():
        if o in house:
            for n, b in names.items():
                if n in house[o].defs(): renames[o][n] = b
                else: problems.append(f"#rename of a name that is not there: {o}.{n}")
    for o, names in ALIASES.items():
        if o in house: house[o].import_alias.update(names)
    defined_by = {}
    for g, olds in groups.items():
        taken = {}      # name -> (what, source text)
        if len(olds) == 1: continue
        for o in olds:
            f = house[o]
            for name, source in f.imports(new_of, g, renames).items():
                if name in f.import_alias: taken[f.import_alias[name]] = (o, source); continue
                if name in taken and taken[name][1] != source:
                    last = source[0].rsplit(".", 1)[-1]; base = name
                    new = f"{last.upper()}_{base}" if base.isupper() else (last.title().replace("_", "") + base if base[:1].isupper() else f"{last}_{base}")
                    f.import_alias[name] = new
                    if "--names" in sys.argv: problems.append(f"import: {g}: {name} of {taken[name]} and {source} -> {new}")
                    taken[new] = (o, source)
                else: taken[name] = (o, source)
            for name in sorted(f.defs()):
                if name in ("__all__", "_") or (name == "implements" and "implements = Family()" in f.text) or f"{o}.{name}" in SAME: continue
                if name in renames[o]: taken[renames[o][name]] = (o, None); continue
                src = None
                for s in [*f.tree.body, *[b for t in f.tree.body if is_type_checking(t) for b in t.body]]:
                    if isinstance(s, (ast.Assign, ast.AnnAssign)) and any(isinstance(t, ast.Name) and t.id == name for t in (s.targets if isinstance(s, ast.Assign) else [s.target])):
                        src = ast.unparse(s)
                if name in taken:
                    if src is not None and taken[name][1] == src and len(src) < 200 and ("TypeVar" in src or src.split("=",1)[1].strip().startswith(("tuple[", "dict[", "list[", "Callable[", "npt.", "Mapping["))):
                        continue
                    last = o.rsplit(".", 1)[1]
                    base = name.lstrip("_")
                    new = ("_" if name.startswith("_") else "") + (f"{last.upper()}_{base}" if base.isupper() else (last.title().replace("_", "") + base if base[:1].isupper() else f"{last}_{base}"))
                    renames[o][name] = new; problems.append(f"name: {g}: {name} of {taken[name][0]} and {o} -> {new}") if "--names" in sys.argv else None
                    taken[new] = (o, src)
                else:
                    taken[name] = (o, src)
        defined_by[g] = taken
    if "--names" in sys.argv or check:
        for p in problems: print(p)
        print(len(groups), "modules of", len(new_of))
        size = {g: sum(len(house[o].text.splitlines()) for o in olds) for g, olds in groups.items()}
        big = [(s, g) for g, s in size.items() if s > 470 and len(groups[g]) > 1]
        print("large:", *[f"{g}:{s}" for s, g in sorted(big, reverse=True)])
        cnt = collections.Counter(g.rsplit(".", 1)[0] for g in groups)
        print("folders over 20:", *[f"{k}:{v}" for k, v in cnt.most_common() if v > 20])
        print(sum(len(v) for v in renames.values()), "renames")
        if check: return
    if any(p.startswith(("circle", "module and")) for p in problems):
        for p in problems: print(p)
        sys.exit("mend the map first")
    # ---- imports of all files
    notes = []
    collected = {}
    modules_of = dict(new_of)
    new_of = {**new_of, **{a: b for a, b in PACKAGES.items() if a in house}}
    for name, f in files.items():
        own = new_of.get(name) if f.path.name != "__init__.py" else None
        group_mates = set(groups.get(own, [])) if own else set()
        multi = own is not None and len(group_mates) > 1
        for n, new in renames.get(name, {}).items(): f.rename(n, f.res.top, new)
        for node, scope in list(f.res.scope_of_import.items()):
            pieces, gone, changed = [], False, False
            if isinstance(node, ast.ImportFrom) and node.module and not node.level and (node.module == "pgrepl" or node.module.startswith("pgrepl.")):
                by_module = collections.OrderedDict()
                for a in node.names:
                    full = f"{node.module}.{a.name}"
                    bound = a.asname or a.name
                    if full in new_of:      # a module, or a package that moves
                        new = new_of[full]; pkg, last = new.rsplit(".", 1)
                        if full in group_mates and multi or (own == new and full != name):   # of our own group: a.f -> f
                            changed = True
                            for n, use, s in f.res.uses:
                                if n == bound and s is scope:
                                    par = f.parent.get(use)
                                    if isinstance(par, ast.Attribute):
                                        x, y = f.span(par)
                                        attr = renames.get(full, {}).get(par.attr, par.attr)
                                        f.edits.append((x, y, attr.encode()))
                                        # is it shadowed here?
                                        p = use; 
                                        while p in f.parent:
                                            p = f.parent[p]
                                            if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                                                sc = Scope(p, None); sc.bound |= f.res._names(p.args)
                                                if not isinstance(p, ast.Lambda): f.res.collect(sc, p.body)
                                                if attr in sc.bound: notes.append(f"SHADOW {name}:{use.lineno} {bound}.{par.attr}")
                                    else: notes.append(f"MODULE AS VALUE {name}:{use.lineno} {bound}")
                            continue
                        # attributes that were renamed
                        for n, use, s in f.res.uses:
                            if n == bound and s is scope and isinstance(f.parent.get(use), ast.Attribute):
                                par = f.parent[use]
                                if par.attr in renames.get(full, {}):
                                    x, y = f.span(par); f.edits.append((y - len(par.attr.encode()), y, renames[full][par.attr].encode()))
                        if new == full: by_module.setdefault(pkg, []).append((a.name, a.asname)); continue
                        changed = True
                        if a.asname is None and last != a.name:
                            alike = {x.asname or x.name for i, sc in f.res.scope_of_import.items() if isinstance(i, ast.ImportFrom) and i.module for x in i.names
                                     if new_of.get(f"{i.module}.{x.name}") == new and (x.asname or x.name) == last}
                            clash = not alike and (last in f.res.top.bound or any(last == n for n, _, _ in f.res.uses)) or any(last in ast.walk.__class__.__name__ for _ in ())
                            args_clash = any(isinstance(x, ast.arg) and x.arg == last for x in ast.walk(f.tree))
                            same_new = False
                            if (clash or args_clash):
                                by_module.setdefault(pkg, []).append((last, a.name)); notes.append(f"ALIAS {name}: {last} as {a.name}")
                            else:
                                f.rename(bound, scope, last); by_module.setdefault(pkg, []).append((last, None))
                        else:
                            by_module.setdefault(pkg, []).append((last, a.asname if a.asname != last else None))
                    elif node.module in new_of:
                        new = new_of[node.module]
                        attr = renames.get(node.module, {}).get(a.name, a.name)
                        if own == new and multi:   # of our own group
                            changed = True
                            if bound != attr: f.rename(bound, scope, attr)
                            continue
                        if attr != a.name:
                            changed = True
                            if a.asname is None: f.rename(bound, scope, attr); by_module.setdefault(new, []).append((attr, None))
                            else: by_module.setdefault(new, []).append((attr, a.asname))
                        else: by_module.setdefault(new, []).append((a.name, a.asname))
                        changed |= new != node.module
                    else:
                        by_module.setdefault(node.module, []).append((a.name, a.asname))
                if scope is f.res.top and f.import_alias:
                    for m, names in by_module.items():
                        for i, (nm, asn) in enumerate(names):
                            b = asn or nm
                            if b in f.import_alias:
                                changed = True; f.rename(b, scope, f.import_alias[b]); names[i] = (nm, f.import_alias[b])
                pieces = list(by_module.items())
            elif isinstance(node, ast.Import):
                for a in node.names:
                    if a.name in new_of and new_of[a.name] != a.name:
                        x, y = f.span(a)
                        f.edits.append((x, y, (new_of[a.name] + (f" as {a.asname}" if a.asname else "")).encode()))
                        if not a.asname: notes.append(f"IMPORT DOTTED {name}: {a.name}")
                        
            if changed:
                x, y = f.span(node)
                ind = b" " * node.col_offset
                text = ("\n" + ind.decode()).join(written(m, p) for m, p in pieces)
                if not pieces:
                    # the whole line goes; a block may not be left empty
                    par = f.parent[node]; body = next(b for b in (getattr(par, k, []) for k in ("body", "orelse", "finalbody")) if node in b)
                    if all(isinstance(b, (ast.Import, ast.ImportFrom)) and f.drop_aliases.get(b, True) for b in body) and not isinstance(par, ast.Module) and len(body) == 1: 
                        if is_type_checking(par): x, y = f.span(par)
                        else: text = "pass"
                    if text != "pass":
                        if b"\n" not in f.raw[y:y+1] and f.raw[y:y+1] not in (b"",): pass
                        x = f.starts[node.lineno - 1] if not is_type_checking(par) or len(body) > 1 else f.starts[par.lineno - 1]
                        e = f.raw.find(b"\n", y); y = len(f.raw) if e < 0 else e + 1
                f.edits.append((x, y, text.encode()))
    # ---- text: dotted names and paths in strings, comments, documents
    pairs = [(o, n) for o, n in new_of.items() if o != n]
    inner = dict(new_of); new_of = modules_of
    dotted = {o: n for o, n in pairs}
    paths = {o.replace(".", "/") + ".py": n.replace(".", "/") + ".py" for o, n in pairs}
    short = {k.removeprefix("pgrepl/"): v.removeprefix("pgrepl/") for k, v in paths.items()}
    rx_dot = re.compile(r"(?<![\w.])pgrepl(?:\.\w+)+")
    def dot(m):
        parts = m.group(0).split(".")
        for i in range(len(parts), 2, -1):
            head = ".".join(parts[:i])
            if head in dotted:
                rest = parts[i:]
                if rest and rest[0] in renames.get(head, {}): rest[0] = renames[head][rest[0]]
                return ".".join([dotted[head], *rest])
            if head in house: break
        return m.group(0)
    rx_path = re.compile(r"(?<![\w./-])((?:pgrepl/)?(?:\w+/)+\w+\.py)\b")
    def path(m):
        t = m.group(1)
        return paths.get(t) or short.get(t) or t
    def retext(t): return rx_path.sub(path, rx_dot.sub(dot, t))
    texts = {}
    File.retexter = staticmethod(retext)
    for name, f in files.items(): texts[name] = f.new_text()
    # ---- write single moves and others
    for a, b in FILES:
        if pathlib.Path(a).exists():
            pathlib.Path(b).parent.mkdir(parents=True, exist_ok=True)
            if subprocess.run(["git", "ls-files", "--error-unmatch", a], capture_output=True).returncode == 0: subprocess.run(["git", "mv", a, b], check=True)
            else: pathlib.Path(a).rename(b)
    outputs, removed = {}, []
    for name, f in files.items():
        if f.path.name == "__init__.py" or name not in new_of:
            if name in PACKAGES:
                if name in inits:
                    target = pathlib.Path(inits[name].replace(".", "/")) / "__init__.py"
                    outputs[target] = texts[name]; removed.append((f.path, target, 1))
                else: subprocess.run(["git", "rm", "-qf", str(f.path)], check=True)
            else: outputs[f.path] = texts[name]
    for g, olds in groups.items():
        target = pathlib.Path(g.replace(".", "/") + ".py")
        for o in olds:
            if house[o].path != target: removed.append((house[o].path, target, len(olds)))
        if len(olds) == 1: outputs[target] = texts[olds[0]]; continue
        docs, heads, checks, bodies = [], [], [], []
        seen_names, tv = {}, set()
        for o in olds:
            text = texts[o]; tree = ast.parse(text)
            lines = text.splitlines(keepends=True)
            cut = []
            for s in tree.body:
                if s is tree.body[0] and isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) and isinstance(s.value.value, str):
                    docs.append((o, raw_doc(text, s))); cut.append((s.lineno, s.end_lineno))
                elif isinstance(s, ast.ImportFrom) and s.module == "__future__": cut.append((s.lineno, s.end_lineno))
                elif isinstance(s, (ast.Import, ast.ImportFrom)):
                    heads.append("".join(lines[s.lineno-1:s.end_lineno])); cut.append((s.lineno, s.end_lineno))
                elif is_type_checking(s):
                    for b in s.body: checks.append("".join(lines[b.lineno-1:b.end_lineno]))
                    cut.append((s.lineno, s.end_lineno))
                elif isinstance(s, (ast.Assign, ast.AnnAssign)):
                    u = ast.unparse(s); t = s.targets[0] if isinstance(s, ast.Assign) else s.target
                    if isinstance(t, ast.Name):
                        if t.id in seen_names and (seen_names[t.id] == u or f"{o}.{t.id}" in SAME): cut.append((s.lineno, s.end_lineno))
                        seen_names.setdefault(t.id, u)
            gone = {i for a, b in cut for i in range(a, b + 1)}
            body = "".join(l for i, l in enumerate(lines, 1) if i not in gone)
            title = o.rsplit(".", 1)[1].strip("_").replace("_", " ")
            head = f"# --- {title} " + "-" * (113 - len(title)) + "\n\n\n" if bodies and body.strip() else ""
            bodies.append(head + body.strip("\n"))
        # imported names that collide
        outputs[target] = merged(g, docs, heads, checks, bodies, notes)
    for p, t, n in removed:
        t.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", "-f", str(p), str(t)], check=True) if n == 1 else subprocess.run(["git", "rm", "-q", "--cached", str(p)], check=True) and p.unlink()
    for p, t in outputs.items():
        p.parent.mkdir(parents=True, exist_ok=True)
        if not p.exists() or p.read_text(encoding="utf-8") != t: p.write_text(t, encoding="utf-8")
    for g in groups:
        d = pathlib.Path(g.replace(".", "/")).parent
        while d != ROOT and str(d) != ".":
            i = d / "__init__.py"
            if not i.exists(): i.write_text('"""' + rooms.get(".".join(d.parts), f"{d.name}: ?") + '"""\n', encoding="utf-8"); notes.append(f"NEW ROOM {d}") if ".".join(d.parts) not in rooms else None
            d = d.parent
    for d in sorted((p for p in pathlib.Path("pgrepl").rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
        left = [x for x in d.iterdir() if x.name != "__pycache__"]
        if [x.name for x in left] == ["__init__.py"]:
            if not any(isinstance(s, (ast.FunctionDef, ast.ClassDef, ast.ImportFrom, ast.Assign)) and not (isinstance(s, ast.ImportFrom) and s.module == "__future__") for s in ast.parse(left[0].read_text()).body):
                subprocess.run(["git", "rm", "-qf", str(left[0])], check=False); subprocess.run(["rm", "-rf", str(d)])
            else: notes.append(f"ROOM EMPTY BUT FOR __init__: {d}")
        elif not left: subprocess.run(["rm", "-rf", str(d)])
    for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.txt"), *ROOT.glob("tests/**/*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile", *ROOT.glob("*.py"), *ROOT.glob("docs/**/*.dot"), *ROOT.glob("grammar/**/*.lark"), *ROOT.glob("examples/**/*.sh"), *ROOT.glob("pgrepl/**/*.json"), *ROOT.glob("pgrepl/**/*.tsv"), *ROOT.glob("benchmarks/**/*.md"), *ROOT.glob(".github/**/*"), *ROOT.glob("tests/**/*.sh")]:
        if p.is_file():
            t = p.read_text(encoding="utf-8"); n = retext(t)
            if n != t: p.write_text(n, encoding="utf-8")
    for o in new_of:
        f = house[o]
        for word in ("__file__", "__package__", "__name__"):
            if word in f.text and new_of[o] != o: notes.append(f"USES {word}: {o} -> {new_of[o]}")
    for x in sorted(set(notes)): print(x)
    print(len(groups), "modules of", len(new_of), "written")


def merged(g, docs, heads, checks, bodies, notes):
    """One module of several: docstrings as paragraphs, imports once, names that two imports bind differently renamed."""
    local = set()
    trees = [ast.parse(b) for b in bodies]
    for t in trees: local |= Resolver(t).top.bound
    bound, lines, aliases = {}, [], []
    def take(sources, where):
        for src in sources:
            node = ast.parse(src.strip().replace("\n    ", "\n    ")) if not src.startswith(" ") else ast.parse(src.strip())
            n = node.body[0]
            if not isinstance(n, (ast.Import, ast.ImportFrom)):
                if src.strip() not in aliases: aliases.append(src.strip())
                continue
            for a in n.names:
                name = a.asname or a.name.split(".")[0]
                what = (getattr(n, "module", None), a.name, a.asname if a.asname and a.asname != a.name else None)
                if name in local and isinstance(n, ast.ImportFrom): notes.append(f"IMPORT/DEF COLLISION {g}: {name} from {what[0]}")
                if name in bound:
                    if bound[name][0][:2] != what[:2] and not (isinstance(n, ast.Import) and bound[name][0][0] is None):
                        notes.append(f"IMPORT COLLISION {g}: {name} from {bound[name][0][0]} and {what[0]}")
                    if bound[name][0] == what: continue
                bound.setdefault(name, (what, where))
                line = (f"from {n.module} import {a.name}" if isinstance(n, ast.ImportFrom) else f"import {a.name}") + (f" as {a.asname}" if a.asname and a.asname != a.name else "")
                if line not in [l for l, _ in lines]: lines.append((line, where))
    take(heads, "head"); take(checks, "check")
    doc = "\n\n".join(d.strip() for _, (r, d) in docs)
    out = [('r' if any(r for _, (r, d) in docs) else '') + '"""' + doc + ('\n' if "\n" in doc else "") + '"""', "", "from __future__ import annotations", ""]
    out += [l for l, w in lines if w == "head"]
    ch = [l for l, w in lines if w == "check"]
    if ch or aliases:
        if "from typing import TYPE_CHECKING" not in out: out.append("from typing import TYPE_CHECKING")
        out += ["", "if TYPE_CHECKING:"] + ["    " + l for l in ch] + (["", *["    " + l for l in aliases]] if aliases else [])
    return "\n".join(out) + "\n\n" + "\n\n\n".join(b for b in bodies if b) + "\n"


main()
