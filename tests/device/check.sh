#!/usr/bin/env bash
# On a machine with a real NVIDIA GPU, in under three minutes, changing no setting and installing nothing:
#   NVML and nvidia-smi agree; the visibility variable of our catalogue leads to the card that is meant;
#   a process that holds the card is seen, and its end, too; our own probe finds the same cards.
# Needs the driver and python3, no CUDA toolkit. Everything else lies in this repository.
#
#   OUT=FOLDER tests/device/check.sh      writes FOLDER/device-check.json (default: the current folder)
#
# Exit status: 0 passed, 1 a check failed, 6 pending. Without a GPU: pending, reason hardware-absent.
set -eu -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-}
[ -n "$python" ] || { [ -x "$here/../../.venv/bin/python" ] && python="$here/../../.venv/bin/python"; } || python=python3
exec timeout --kill-after=5 170 "$python" -B "$here/check.py" --out "${OUT:-.}" "$@"
