# A dict and a set change while a key is compared.
class Key:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return 1

    def __eq__(self, other):
        table.clear()
        table.update({i: i for i in range(50)})
        bag.clear()
        return False


for _ in range(30):
    table, bag = {Key(1): 1}, {Key(1)}
    for use in (lambda: table[Key(2)], lambda: table.setdefault(Key(3), 3), lambda: bag.add(Key(4)),
                lambda: table == {Key(5): 1}, lambda: bag & {Key(6)}, lambda: table.pop(Key(7))):
        try:
            use()
        except (RuntimeError, KeyError):
            pass
