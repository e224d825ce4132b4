"""Backups: a folder with a copy of the catalog as of one moment, and of the files of its tables.

    pgrepl backup FOLDER               makes one, or brings it up to date: only files that are new are copied
    pgrepl restore FOLDER --to PLACE   makes a catalog with files of its own from it

    FOLDER/backup.json                 says which catalog below is the backup's: it is written last, as a whole
    FOLDER/catalog-….db                the catalog
    FOLDER/files/…                     its files, under the names that they have in the data folder

Files come first, then the catalog, then `backup.json`; only then what the backup does not need any more goes. Killed
between any two, the folder is the backup that it was before. The copies are made as a standby's (replication/standby):
nobody who writes has to wait, and a file that VACUUM has taken away meanwhile makes a newer copy of the catalog.

Rule: nothing here writes to the catalog that is backed up, and nothing of a backup is ever opened for writing.
"""
