"""kill -9 of workers at random moments."""

from __future__ import annotations

import os
import random
import signal


class RandomKills:
    """Kills a random worker after about every so many outcomes. Tasks are done in between: none is hit three times."""

    def __init__(self, kills: int, every: int, seed: int = 3):
        self.left, self._every = kills, every
        self._random = random.Random(seed)
        self._pause = every
        self._processes: dict[int, int] = {}

    def notice(self, seat: int, state: str, reason: str) -> None:
        self._processes.pop(seat, None)
        if state == "ready":
            self._processes[seat] = int(reason.split()[1])

    def sometimes(self) -> None:
        self._pause -= 1
        if self.left and self._pause <= 0 and self._processes:
            os.kill(self._random.choice(list(self._processes.values())), signal.SIGKILL)
            self.left -= 1
            self._pause = self._every + self._random.randrange(3)
