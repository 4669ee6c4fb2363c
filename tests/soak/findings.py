"""What went wrong in a soak, each thing once, and where sanitizers and crashes are told."""
import os
import re
import threading
import time

SIGNS = re.compile(r"(ERROR: \w*Sanitizer.*|\S+: runtime error: .*|WARNING: ThreadSanitizer.*|\S+:\d+: check failed: .*)")
SHOWN_MAX = 1000  # characters of one


class Findings:
    def __init__(self):
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.items = []  # {"at_s", "what", "count"}

    def __len__(self):
        return len(self.items)

    def add(self, what):
        with self.lock:
            for item in self.items:
                if item["what"] == what:
                    item["count"] += 1
                    return
            self.items.append({"at_s": round(time.monotonic() - self.began, 1), "what": what, "count": 1})
        print(f"FINDING at {time.monotonic() - self.began:.0f} s: {what[:SHOWN_MAX]}", flush=True)

    def expect(self, holds, what):
        if not holds:
            self.add(what)
        return holds

    def scan(self, path):
        """Looks through a log for what sanitizers and failed checks say."""
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                found = SIGNS.search(line)
                if found:
                    around = "".join(line for line, _ in zip(file, range(12)))
                    self.add(f"{os.path.basename(path)}: {found.group(1)}\n{around}"[:SHOWN_MAX])
