# Backtracking.
import re
while True:
    try:
        re.match("(a|aa)+b", "a" * 45)
        re.match("a?" * 30 + "a" * 30, "a" * 29)
    except RuntimeError:
        pass
