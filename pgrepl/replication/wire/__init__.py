"""What crosses from a publisher to a subscriber, whoever they are.

messages.py           transactions and their messages, one by one
batch.py              the same as whole columns: the contract of both publishers
text.py               the text form of values on the wire
pgoutput.py           letters, fields and flags of pgoutput's bytes; pgoutput_read.py reads them into messages,
                      pgoutput_columns.py into columns; pgoutput_write.py writes messages as such
message_files.py      columns of messages, kept in files; file_changes.py picks some of them
key_values.py         which values of keys are equal
"""
