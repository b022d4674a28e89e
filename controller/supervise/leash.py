"""Runs a command that ends when its parent dies: `... -m controller.supervise.leash COMMAND`.

On Linux the kernel sends SIGTERM to the process when its parent is killed (prctl(2)); other
systems have no such call, and the command runs without. For children of the demo, of the
supervisor, and the development broker.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Sets the signal and becomes the command."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        except (OSError, AttributeError):
            sys.stderr.write("this system cannot tie a process to its parent\n")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
