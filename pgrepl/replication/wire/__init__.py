"""The changes that a publisher sends to a subscriber: their messages, as objects, as columns and as pgoutput's bytes.

messages.py           transactions and their messages, one by one
batch.py              many transactions with their messages as whole columns: the contract of both publishers
text.py               the text form of values on the wire; binary_values.py and binary_columns.py the
                      binary one
pgoutput.py           letters, fields and flags of pgoutput's bytes; pgoutput_read.py reads them into messages,
                      pgoutput_columns.py into columns; pgoutput_write.py writes them, pgoutput_write_columns.py whole
                      columns of them
message_files.py      columns of messages, kept in files; file_changes.py picks some of the messages
key_values.py         the equality of key values
"""
