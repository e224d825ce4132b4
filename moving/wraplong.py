"""Breaks the lines of docstrings and comments that have become too long."""
import re, subprocess, collections, pathlib
def run():
    out = subprocess.run([".venv/bin/ruff", "check", ".", "--select", "E501", "--output-format", "concise"], capture_output=True, text=True).stdout
    at = collections.defaultdict(set)
    for m in re.finditer(r"^(\S+?):(\d+):\d+: E501", out, re.M): at[m.group(1)].add(int(m.group(2)))
    return at
for _ in range(8):
    at = run(); did = False
    for p, lines in at.items():
        text = pathlib.Path(p).read_text().split("\n")
        for n in sorted(lines, reverse=True):
            l = text[n - 1]; ind = re.match(r"\s*(# )?", l).group(0)
            if re.search(r"^\s*(if|return|assert|from|import|with|for|def)\b.*[:(=]", l) and not l.strip().startswith('"""'): continue
            i = l.rfind(" ", 0, 119)
            if i <= len(ind): continue
            rest = l[i + 1:]
            nxt = text[n] if n < len(text) else ""
            m = re.match(r'^(\s*)"""', l)
            if m: ind = m.group(1)
            # flow into the next line of the paragraph
            if nxt.strip() and not nxt.strip().startswith(('"""', "*", "-", "#" if not ind.strip() else "\0", ">>>")) and re.match(r"\s*(# )?", nxt).group(0) == ind and not rest.endswith('"""') and len(rest) + len(nxt) < 118:
                text[n] = ind + rest + " " + nxt[len(ind):]; text[n - 1] = l[:i]
            else: text[n - 1:n] = [l[:i], ind + rest]
            did = True
        pathlib.Path(p).write_text("\n".join(text))
    if not did: break
