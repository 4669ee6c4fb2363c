# A lattice of classes: the ways up are 2 to the power of its height.
base = type("A", (), {})
for _ in range(60):
    base = type("A", (type("B", (base,), {}), type("C", (base,), {})), {})
isinstance(base(), int)
