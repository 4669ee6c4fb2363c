# Long integers: rows of work in one bytecode.
n = 1
while True:
    try:
        x = n << 400000
        pow(x, x, x + 1)
        str(x)
    except MemoryError:
        pass
