"""A standby: a second folder with a catalog and files that follows a first one, the primary, and can take its place.

    pgrepl standby create FOLDER    a copy of the catalog, and its files linked or copied
    pgrepl standby sync FOLDER      what has come since
    pgrepl standby promote FOLDER   it follows no longer, and may be written

A standby has the primary's snapshots under the primary's numbers, so LSNs mean the same in both, and the slots of the
subscriptions that have `failover = true`, as they stood at those snapshots. A subscription that is pointed at the
promoted standby goes on where it was. Until then the standby is read-only (catalog/session/context.py).

Synchronizing is three steps, of which only the second is seen by others: files come first, under names that nothing
refers to yet; then one transaction of SQLite puts the new catalog in the place of the old one; then files go that
neither needs. Killed between any two, a standby is as it was before or as it is after, and the next run tidies up.
Every file belongs to one folder: a hard link is a name of its own, so that VACUUM on one side takes nothing from the
other.

Rule: nothing here writes to the primary but the position of the standby's own slot.
"""
