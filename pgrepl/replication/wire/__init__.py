"""The changes that a publisher sends to a subscriber: their messages, as objects, as columns and as pgoutput's bytes.

    messages.py           transactions and their messages, one by one
    batch.py              many transactions with their messages as whole columns: the contract of all publishers
    values.py             the text form of values on the wire, and the binary one
    pgoutput.py           letters, fields and flags of pgoutput's bytes; pgoutput_read.py, pgoutput_write.py
    message_files.py      columns of messages, kept in files; file_changes.py picks some of the messages

Rule of the room: the wire knows no row ids and no catalog.
"""
