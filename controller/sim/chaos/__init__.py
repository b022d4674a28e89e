"""Fault simulator: the production core and agents on a simulated log, clock and network.

One seed is one run; nothing sleeps and nothing here decides about bundles. Rules: time passes only
in `kernel`; all chance comes from one generator; whatever a process does between two events is
one atomic step, so a crash or a pause can fall between any two of them; `judge` looks after each.
`python -m controller.sim.chaos` runs many seeds, or one of them with its trace.
"""
