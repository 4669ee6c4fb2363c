# An index or a slice that empties what it is an index of.
class Index:
    def __init__(self, value):
        self.value = value

    def __int__(self):
        x.clear()
        y = [(1, 2)] * 40
        return self.value

    __index__ = __int__


for value in (0, 5, 39, -1):
    for use in (lambda: x[Index(value)], lambda: x[Index(value):], lambda: x.pop(Index(value)),
                lambda: x.insert(Index(value), 1), lambda: x.index(7, Index(value)), lambda: x * Index(value)):
        x = list(range(40))
        try:
            use()
        except (TypeError, IndexError, ValueError):
            pass
