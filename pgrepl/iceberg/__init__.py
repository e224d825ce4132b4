"""The lake's tables as Iceberg tables, for engines that read Iceberg.

No data is copied: metadata.json, manifest lists and manifests name the lake's own files. They are a function of the
catalog, made when somebody asks for them, and their names are digests of what is in them: what is there already is
right. Only what Iceberg has no place for, rows and deletes that are inlined in the catalog, is written as small files.

Rule: nothing here changes the lake, and nothing is written in its data folder.
"""
