"""Recorded scenarios through the strategies of the job, without Spark: `bundlectl decide`.

A scenario is one JSON line: a class of Pulsar's, its configuration, and what it saw, tick by tick
(docs/decide.md). Each is read into the cluster view that the job builds, decided by the very
strategy that the job runs, and answered in the words of Pulsar's own classes.
"""
