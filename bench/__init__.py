"""Benchmarks: run them from the project's folder, `python -m bench.NAME --help`."""
