"""Keeps one controller process running: `bundlectl run --supervise`. See `supervisor`."""

from controller.supervise.supervisor import Supervisor, wait_s

__all__ = ["Supervisor", "wait_s"]
