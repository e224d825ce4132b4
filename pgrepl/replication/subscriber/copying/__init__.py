"""The initial copy of a table: the whole of it or by ranges of its key, row by row, by whole columns or on Spark, and
the triggers that it fires (apply/triggers.py).

Read copy.py, then ranges.py. A worker may be killed anywhere; what the next attempt does follows from what was
committed. The names are those of `crash_point`:

    killed at         what is there                       the next attempt
    copy.begun        d, the origin                       drops the slot, if there is one, and begins again
    copy.slot         and a slot at the publisher         the same
    copy.received     and files that nothing names        the same; VACUUM removes the files
    copy.written      the same: nothing is committed      the same
    copy.committed    s or f, the rows, and the slot      s: drops the slot, and the main stream makes the table r
                                                          f: streams from the slot
    range.written     the ranges committed before         copies the others
    table.settled     f, what its stream has committed    streams on from there
    table.left        s and the slot                      drops the slot
    again.emptied     the table as it was                 empties it when it is asked again

In pieces there is no slot, and copy.committed comes after each round: the next attempt copies the ranges that are left.
A power cut does no more, as commits are synced. With `synchronous_commit = off` the last of them may be gone: then the
copy stands at an earlier line. The commit before copy.begun is synced always: else nobody would drop the slot.
"""
