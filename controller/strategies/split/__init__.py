"""Strategies that choose bundles to split, and the boundaries."""
