# What a task has before its first line that depends on the run: imports, a class, functions, tables. container_start.c
# measures up to the question; the rest is not counted.
import json
import walle
from walle import data, np

NAMES = ("item", "shop", "cart", "pay", "back", "search", "like", "share")
PLACES = {name: place for place, name in enumerate(NAMES)}
WEIGHTS = [0.5 ** place for place in range(16)]


class Page:
    def __init__(self, name, dwell):
        self.name = name
        self.dwell = dwell

    def score(self):
        return WEIGHTS[PLACES[self.name]] * min(self.dwell, 60)


def total(pages):
    return sum(page.score() for page in pages)


def spread(pages):
    return np.array([page.score() for page in pages]).std()


data.query("first_line", "k")
pages = [Page(name, 10 * place) for place, name in enumerate(NAMES)]
walle.result(json.dumps([total(pages), spread(pages)]))
