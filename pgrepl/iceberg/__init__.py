"""The lake's tables as Iceberg tables, for engines that read Iceberg.

No data is copied: metadata.json, manifest lists and manifests name the lake's own files. They are a function of the
catalog, made when somebody asks for them, and their names are digests of what is in them. Only inlined rows and
deletes are written as small files. Read in this order:

    tables.py       which tables a role sees, and their options
    schema.py       which columns a reader sees of a table (`shape`), as what, and why others are left out
    contents.py     its files and rows at a snapshot; columns that some files cannot tell
    manifests.py, snapshots.py, metadata.py   what is told of them
    export.py       the same for readers of folders; place.py where it is

Rule of the room: nothing here changes the lake, and nothing is written in its data folder.
"""
