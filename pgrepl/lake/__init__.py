"""DuckLake tables: define/ (definitions), read/ (scans), write/ (staged files), commit/, changes/ (between snapshots),
upkeep/.

Rule of the room: files are staged first, and the catalog refers to them in one transaction. Nothing here imports
pyspark, nor pyarrow or numpy until data is read or written: a definition is only rows of the catalog.
"""
