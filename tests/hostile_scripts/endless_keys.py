# Keys that all hash to one place.
class Key:
    def __hash__(self):
        return 7


while True:
    try:
        table = {}
        while True:
            table[Key()] = 1
    except MemoryError:
        pass
