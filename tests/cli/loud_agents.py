"""An agent that says what a terminal would obey, by every way that it has."""

from __future__ import annotations

import logging
import sys

from ether import Agent
from tests.hostile_text import HOSTILE

__all__ = ["Failing"]


class Failing(Agent):
    """Does not start, and says so."""

    def on_start(self) -> None:
        print("printed", HOSTILE)
        print("on stderr", HOSTILE, file=sys.stderr)
        logging.getLogger("ether.agent").warning("logged %s", HOSTILE)
        raise ValueError(HOSTILE)
