"""Decisions from outside: records that any process may leave, carried out once by the owner of the store."""
