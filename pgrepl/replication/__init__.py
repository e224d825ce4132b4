"""Slots, origins and publishers: how one database hears of another's changes.

Rule of the room: a subscription knows its publisher only through the protocol of publisher.py; whether a lake or a
server stands behind it is decided once, when the connection is made (connection.py).
"""
