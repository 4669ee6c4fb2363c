# The match that re.sub hands to its function lay on the C stack, and a script can keep it.
import re
kept = []
re.sub("(a)(b)?", lambda match: kept.append(match) or "x", "abab" * 20)
for match in kept:
    try:
        match.group(0), match.group(1), match.group(2), match.span()
    except Exception:
        pass
