# Work for the two-threads benchmark: integers, floats, calls, lists and dicts, no input and no output.
def step(x, y):
    return (x * 31 + y) % 65521


total = 0
table = {}
for i in range(3000):
    total = step(total, i)
    table[total % 50] = [total, i * 0.5]
    if total % 3 == 0:
        total += len(table)
