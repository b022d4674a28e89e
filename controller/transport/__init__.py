"""Transports: where load reports, commands and the channel travel.

`port` says what a transport must do; `embedded` is the default one, a single SQLite file.
"""
