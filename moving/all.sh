#!/bin/bash
# all.sh: the whole move in this checkout, which is a clean one of the old layout, in two commits
unset PYTHONDONTWRITEBYTECODE; H=moving
$H/lay.sh | tail -4
sed -i 's/HEAVY = {"pyspark", "pyarrow", "sqlglot", "pandas", "lark"}/HEAVY = {"pyspark", "sqlglot", "pandas", "lark"}  # pyarrow and numpy: test_startup.py sees what small commands load/' tests/house/test_floors.py
python3 $H/docs.py $H/map0.txt $H/map1.txt $H/map2.txt
python3 - <<'P'
p="docs/house.svg"; s=open(p).read()
s=s.replace('viewBox="0 0 840 786"','viewBox="0 0 840 840"').replace('y1="25" x2="740" y2="751"','y1="25" x2="740" y2="805"')
s=s.replace('<line class="l"','<rect x="15" y="771" width="700" height="44"/>\n<text class="m" x="29" y="798">ground/</text><text class="s" x="145" y="798">errors, interrupts, memory, threads</text>\n<line class="l"')
open(p,"w").write(s)
P
bash $H/fold.sh
.venv/bin/ruff format -q .; .venv/bin/ruff check . --output-format concise | tail -5
git add -A; git commit -qm "A lighter house: neighbours that share an idea are one module, rooms have folders, imports stand at the head where no command loads more for it"
