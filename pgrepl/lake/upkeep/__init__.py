"""Upkeep, as VACUUM and `pgrepl verify` do it: small files are merged, inlined deletes moved into files, snapshots
expired with the files that only they needed, damage looked for."""
