# A deque with room for nothing that believes it has room for everything: what is appended was written over the process.
from collections import deque
d = deque((), 1 << 61)
for i in range(4096):
    d.append(i)
