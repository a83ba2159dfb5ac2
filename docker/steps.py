"""What a long run prints: its steps, how long each took here the last time, and the time since the first."""

import json
import time

from common import CACHE, replacing


class Steps:
    """Prints each step, how long it took here the last time, and the time since the first one."""

    FILE = "durations.json"  # in .cache/: step -> seconds

    def __init__(self, *names: str):
        self.names, self.done, self.started = names, 0, time.monotonic()
        self.began = self.started
        try:
            known = json.loads((CACHE / self.FILE).read_text())
            self.seconds = {name: float(took) for name, took in known.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            self.seconds = {}

    def next(self) -> None:
        self.end_step()
        notes = [f"{time.monotonic() - self.started:.0f} s so far"] if self.done else []
        name = self.names[self.done]
        self.done += 1
        if name in self.seconds:
            notes.append(f"last time {self.seconds[name]:.0f} s")
        said = f"  ({', '.join(notes)})" if notes else ""
        print(f"==> [{self.done}/{len(self.names)}] {name}{said}", flush=True)

    def end_step(self) -> None:
        now = time.monotonic()
        if self.done:
            self.seconds[self.names[self.done - 1]] = round(now - self.began, 1)
        self.began = now

    def finish(self, text: str) -> None:
        self.end_step()
        with replacing(CACHE / self.FILE) as partial:
            partial.write_text(json.dumps(self.seconds, indent=1) + "\n")
        print(f"==> {text}  ({time.monotonic() - self.started:.0f} s)", flush=True)
