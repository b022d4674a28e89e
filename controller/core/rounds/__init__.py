"""Ticks and rounds: repair, answers, decisions, and the log of all that."""
