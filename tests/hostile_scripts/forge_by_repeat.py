# Repeats whose size wraps to a few bytes.
for make in (lambda: [0] * ((1 << 61) + 1), lambda: (0, 1, 2, 3) * ((1 << 60) + 1),
             lambda: b"0123456789abcdef" * ((1 << 60) + 1), lambda: "ab" * ((1 << 62) - 1)):
    try:
        x = make()
        x[999]
    except MemoryError:
        pass
