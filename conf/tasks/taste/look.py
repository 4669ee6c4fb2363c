# What a visit of an item's page looked like, in numbers from 0 to about 1, and whether the user acted
# on the item. make_taste.py does the same in NumPy for the model that all begin with.
import math

ACTED = ("favourite", "cart", "buy")
KINDS = 4


# A number of a category's name that is the same everywhere.
def kind_of(category):
    total = 0
    for letter in category.encode():
        total = (total * 31 + letter) % 65521
    return total % KINDS


class Visit:
    def __init__(self, event):
        self.begin, self.end = event.time, event.time
        self.price = event.get("price_cents", 0)
        self.kind = kind_of(event.get("category", ""))
        self.depth = self.shows = self.acted = 0

    def add(self, event):
        self.end = max(self.end, event.time)
        if event.kind == "scroll":
            self.depth = max(self.depth, event.get("depth", 0))
        elif event.kind == "exposure":
            self.shows += 1
        elif event.kind == "click" and event.get("target", "") in ACTED:
            self.acted = 1

    def numbers(self):
        kinds = [0.0] * KINDS
        kinds[self.kind] = 1.0
        return [min(1.0, math.log(1 + (self.end - self.begin) / 1000) / 6), min(1.0, self.depth / 100), min(1.0, self.shows / 20),
                min(1.0, math.log(1 + max(0, self.price) / 100) / 10)] + kinds


# The visit that ended last, or None: its page was left without being entered.
def last_visit(events):
    visit = None
    for event in events:
        if event.kind == "enter":
            visit = Visit(event)
        elif visit is not None:
            visit.add(event)
    return visit
