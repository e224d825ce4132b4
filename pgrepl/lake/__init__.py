"""DuckLake tables: define/ (definitions), read/ (scans), write/ (staged files), commit.py, changes/ (between
snapshots); upkeep, as VACUUM and `pgrepl verify` do it: compact.py merges small files and moves inlined deletes into
files, expire.py ends snapshots with the files that only they needed, verify.py looks for damage.

Rule of the room: files are staged first, and the catalog refers to them in one transaction. Nothing here imports
pyspark, nor pyarrow or numpy until data is read or written: a definition is only rows of the catalog.
"""
