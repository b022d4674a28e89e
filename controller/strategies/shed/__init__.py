"""Strategies that choose load to take off brokers, and where it goes."""
