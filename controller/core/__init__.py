"""The core: `step(state, inputs, now_ms, settings)`, pure and deterministic.

Nothing here reads a clock, draws a random number, does I/O, logs, or knows Spark. Read `step`
first, then `rounds`; `state` is what is kept between calls.
"""
