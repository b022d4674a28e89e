"""Pulsar's broker configuration in the words of ours."""
