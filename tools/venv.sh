#!/usr/bin/env bash
# Makes the virtual environment named by the first argument, with the interpreter in $PYTHON or else
# the first one found that is new enough. An environment that works is kept; one that does not (its
# interpreter is gone, or making it was cut off) is made anew.
set -eu

folder=$1

new_enough() {
    # A name on PATH may be a stub of a version manager that starts nothing: run it to find out.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -x "$folder/bin/python" ] && new_enough "$folder/bin/python" \
    && "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

chosen=
if [ -n "${PYTHON:-}" ]; then
    new_enough "$PYTHON" && chosen=$PYTHON
else
    for name in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if new_enough "$name"; then chosen=$name; break; fi
    done
fi
if [ -z "$chosen" ]; then
    echo "Steelyard needs Python 3.11 or newer, and ${PYTHON:-python3} is not: install one" \
        "(Debian: apt-get install python3 python3-venv), or name it with PYTHON=/path/to/python3." >&2
    exit 1
fi
if ! "$chosen" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "$chosen has no venv module: install it (Debian: apt-get install python3-venv)," \
        "or name another interpreter with PYTHON=/path/to/python3." >&2
    exit 1
fi
rm -rf "$folder"
"$chosen" -m venv "$folder"
