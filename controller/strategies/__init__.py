"""Strategies: who sheds, who takes, what is split. One file each, behind `registry`.

A strategy is a pure function of a frozen `ClusterView`, its own memory and its parameters. It
knows nothing of Spark, transports or the wire; it returns a plan and a reason for every no.
"""
