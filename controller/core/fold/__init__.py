"""Folding records into the state: load reports, channel records, commands."""
