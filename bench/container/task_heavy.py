# A heavy task: what one would take arrays for, in plain Python: a product of matrices, a filter, a sort and a sieve.
# bench/container/container_tasks.py runs it.
def product(a, b):
    columns = [[row[j] for row in b] for j in range(len(b[0]))]
    return [[sum([x * y for x, y in zip(row, column)]) for column in columns] for row in a]


def smooth(x, kernel):
    out = []
    for i in range(len(x) - len(kernel) + 1):
        total = 0
        for j in range(len(kernel)):
            total += x[i + j] * kernel[j]
        out.append(total)
    return out


def primes(below):
    sieve = bytearray(below)
    for i in range(2, below):
        if not sieve[i]:
            for j in range(i * i, below, i):
                sieve[j] = 1
    return below - 2 - sum(sieve[2:])


def median(x):
    order = sorted(x)
    return order[len(order) // 2]


# Arrays first: what lives on between products leaves a full heap in pieces.
x = [i * 7919 % 1009 for i in range(600)]
y = smooth(x, [1, 4, 6, 4, 1])
middle, count = median(y), primes(4000)
n = 22
a = [[(i * 7 + j * 13) % 11 - 5 for j in range(n)] for i in range(n)]
b = [[(i * 5 + j * 3) % 7 - 3 for j in range(n)] for i in range(n)]
c = product(product(a, b), a)
out = [c[3][5], sum([row[i] for i, row in enumerate(c)]), sum(y), middle, count]
