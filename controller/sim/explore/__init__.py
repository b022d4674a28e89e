"""Exhaustive exploration of the production code on a small scale: every reachable state.

The system is that of `controller.sim.chaos`, as small as it can be: two brokers, a leader and its
standby, one bundle that may be assigned, transferred and split. `controller.core.step.step` and
`controller.agent.core.handle` themselves are run, not a model of them; around them is only what
their runtimes do. `bounds` says how much may happen on a path, `times` how long things take.

Two states are one if nothing can tell them apart, which is what makes the search finite. Left out
are totals and sequence numbers, which decide nothing; clocks, because both codes only compare
times (all are kept relative to "now"); and how much older than the longest timeout a time is,
because all comparisons have come out the same way by then. Versions are kept as they are: orders
and faults bound them. `tests/sim/test_explore.py` bends all that is left out, and sees that the
production code does the same.

What is no event of its own, and why nothing is lost:

- The leader reads what is new when that has an effect, together with what makes it act: a tick,
  an order, a request. How the log is cut into batches changes no decision (ARCHITECTURE, contract
  2), and a batch that misses the newest records is a fault that is explored.
- An agent appends a sign of life with the read that gave it, if no records wait; only the leader
  reads it, which cannot tell it from one that was appended later in the same unit of time.
- What is due because time has passed is done first thing in the new unit; appending and
  publishing what follows from it are events of their own and come at any time in it.

`python -m controller.sim.explore` runs the quick bound, with `--full` the full one.
"""
