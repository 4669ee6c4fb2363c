# The list that is sorted is emptied and filled by its own key function.
x = list(range(50))


def key(value):
    x.clear()
    x.extend(bytes(90))
    y = [(1, 2)] * 30
    return value


for _ in range(20):
    x.sort(key=key)
    x.extend(range(40))
