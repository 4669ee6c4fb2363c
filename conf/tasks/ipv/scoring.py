# How interested was the user? A logistic model over the columns of one item-page-view row.
#
# The weights come with the task's configuration. The score is given in parts per million, a whole
# number, so that two runtimes can be compared exactly.
import math

CLICKS = ("favourite", "cart", "share", "review", "buy")


class Model:
    def __init__(self, config):
        self.bias = config["bias"]
        self.weights = config["weights"]

    def score(self, row):
        weights = self.weights
        z = self.bias
        z += weights["dwell"] * math.log(1.0 + row["dwell_ms"] / 1000.0)
        z += weights["depth"] * row["depth"] / 100.0
        z += weights["exposures"] * row["exposures"]
        for kind in CLICKS:
            if row[kind]:
                z += weights[kind] * row[kind]
        return int(1000000.0 / (1.0 + math.exp(-z)) + 0.5)
