"""Run a command while busy loops run, as on a machine with other work: `busy.py 4 -- COMMAND …`."""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    count, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        sys.exit(__doc__)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(int(count))]
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main())
