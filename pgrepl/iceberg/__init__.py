"""The lake's tables as Iceberg tables, for engines that read Iceberg.

No data is copied: metadata.json, manifest lists and manifests name the lake's own files. They are a function of the
catalog, made when somebody asks for them, and their names are digests of what is in them. Only inlined rows and
deletes are written as small files. Read tables.py, schema.py, contents.py, manifests.py, metadata.py; export.py is
for readers of folders.

Rule of the room: nothing here changes the lake, and nothing is written in its data folder.
"""
