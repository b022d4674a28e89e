"""Strategies that choose an owner for a bundle that needs one."""
