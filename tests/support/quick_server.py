"""The server as it is, but for how often engines are asked for their inventory: short forms of long tests.

A program: `python quick_server.py up --data …` is `steelyard up --data …`.
"""

from __future__ import annotations

from steelyard.cli.main import run
from steelyard.control import agents

agents.INVENTORY_EVERY = 0.5

if __name__ == "__main__":
    run()
