#!/bin/sh
# Prints the Python to make the virtual environment with, or fails with one sentence.
# The first argument, if any, is the one to use; else the tested 3.11 comes first.

try() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${1:-}" ]; then
    try "$1" && printf '%s\n' "$1" && exit 0
    printf 'bundle-controller: PYTHON=%s is not a Python 3.11 or newer; name one that is.\n' "$1" >&2
    exit 1
fi
for name in python3.11 python3 python3.13 python3.12; do
    try "$name" && printf '%s\n' "$name" && exit 0
done
printf '%s\n' "bundle-controller: Python 3.11 or newer is needed and none was found; install one \
(Debian 12: apt-get install python3 python3-venv; macOS: brew install python@3.11) or name it: \
make PYTHON=/path/to/python3.11." >&2
exit 1
