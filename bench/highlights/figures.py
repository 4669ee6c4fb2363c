"""What the scores come to: accuracy with intervals, what is sent, what the cloud is spared, and how long a moment takes."""
import math
from collections import Counter

import numpy as np

import networks

Z = 1.959964  # of intervals at 95 %

# Phones of the model, by products of float16 a second. The first is a MobileNetV2 (300.8 M products) in 5.19 ms, which MNN
# publishes for a Kirin 990; the others are a third and a ninth of it. Shares are those of conf/populations/default.conf by
# memory: 8 GB and more, 4 to 6 GB, less.
PHONES = (("fast", 300.8e6 / 5.19e-3), ("middle", 300.8e6 / 5.19e-3 / 3), ("slow", 300.8e6 / 5.19e-3 / 9))
ROUND_TRIP_MS = 50  # between a phone and the cloud


def wilson(right, total):
    share = right / total
    middle = (share + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z / (1 + Z * Z / total) * math.sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    return share, middle - half, middle + half


def paired(ours, theirs):
    """Difference of two shares over the same moments, with its interval."""
    difference = ours.astype(float) - theirs
    half = Z * difference.std(ddof=1) / math.sqrt(len(difference))
    return difference.mean(), difference.mean() - half, difference.mean() + half


def judged(device, cloud, answer, threshold):
    """Of moments with known answers: what the device alone, the cloud alone and both together get right."""
    own, big = device.argmax(1), cloud.argmax(1)
    sent = device.max(1) < threshold
    both = np.where(sent, big, own)
    right = {"device": own == answer, "cloud": big == answer, "both": both == answer}
    is_one = answer > 0
    return {"moments": len(answer), "sent": wilson(int(sent.sum()), len(sent)),
            "accuracy": {who: wilson(int(hits.sum()), len(hits)) for who, hits in right.items()},
            "within": paired(right["both"], right["cloud"]),
            "found": {who: wilson(int((hits & is_one).sum()), int(is_one.sum())) for who, hits in right.items()}}


class Ends:
    """What a fleet's moments end with: the answer of their records; where a moment that was sent was replayed, the cloud's over HTTP."""

    def __init__(self):
        self.counts = Counter()

    def add(self, record):
        is_asked = record["replayed"] and record["by"] != "device"
        self.counts[record["moment"], None if is_asked else record["answer"]] += 1

    def right(self, over_http, truth):
        """How many are right. over_http: answers by moment."""
        return sum(count for (moment, answer), count in self.counts.items() if (over_http[moment] if answer is None else answer) == truth[moment])


def write_scores(path, device, cloud, answer):
    """As `walle fallback threshold` reads them."""
    with open(path, "w", encoding="ascii") as out:
        out.write("confidence,device,cloud,label\n")
        for row in zip(device.max(1), device.argmax(1), cloud.argmax(1), answer):
            out.write("%.6f,%d,%d,%d\n" % row)


def phone_shares(population):
    """Shares of fast, middle and slow phones in a file of populations, by the memory of its first table."""
    weights = [0.0, 0.0, 0.0]
    with open(population, encoding="ascii") as lines:
        columns = None
        for line in lines:
            words = line.split()
            if words[:1] == ["table"] and "ram_mb" in words:
                columns = words[1:]
            elif columns and words and words[0].isdigit():
                ram = int(words[1 + columns.index("ram_mb")])
                weights[0 if ram >= 8192 else 1 if ram >= 4096 else 2] += float(words[0])
            elif columns and not words:
                break
    return [weight / sum(weights) for weight in weights]


def device_parts_ms(plan, phone):
    """Of each network on a phone, by its products."""
    return {part: 1e3 * networks.parameters_and_products(part, plan)[1] / phone for part in networks.PARTS}


def mixed(values, weights, share):
    """A quantile of values that have weights."""
    order = np.argsort(values)
    total = np.cumsum(np.asarray(weights)[order])
    return float(np.asarray(values)[order][np.searchsorted(total, share * total[-1])])


def latency(plan, shares, script_ms, sent, cloud_ms):
    """Milliseconds of a moment, p50 and p99 over phones and moments: on the device, in the cloud, end to end."""
    on_device = [script_ms + sum(device_parts_ms(plan, speed).values()) for _, speed in PHONES]
    cloud = [ROUND_TRIP_MS + took for took in cloud_ms] or [ROUND_TRIP_MS]
    values, weights = [], []
    for took, share in zip(on_device, shares):
        values += [took] + [took + more for more in cloud]
        weights += [share * (1 - sent)] + [share * sent / len(cloud)] * len(cloud)

    def both(of, by):
        return {"p50": mixed(of, by, 0.5), "p99": mixed(of, by, 0.99), "most": max(of)}
    return {"device": both(on_device, shares), "cloud": both(cloud, [1] * len(cloud)), "all": both(values, weights),
            "parts": {name: {"script": script_ms, **device_parts_ms(plan, speed)} for name, speed in PHONES}}
