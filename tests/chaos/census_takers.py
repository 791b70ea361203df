"""A service as ``pratique serve`` runs it, that counts its tasks when it is asked by a signal.

Started as ``python -m chaos.census_takers FILE serve …``; on SIGUSR1 it writes the number to the file.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from types import FrameType

from pratique_cli.main import main


def count_tasks_into(path: Path) -> None:
    """Write the number of tasks of the main thread's loop to a file whenever SIGUSR1 comes."""

    def count(_number: int, _frame: FrameType | None) -> None:
        try:
            tasks = len(asyncio.all_tasks())
        except RuntimeError:  # no loop runs now
            tasks = 0
        new = path.with_suffix(".new")
        new.write_text(str(tasks))
        new.replace(path)

    signal.signal(signal.SIGUSR1, count)


if __name__ == "__main__":
    count_tasks_into(Path(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    sys.exit(main())
