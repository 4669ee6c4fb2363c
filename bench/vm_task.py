# A small task as devices run it: item-page views of a short behaviour log become features and a score.
log = [{"item": i % 7, "ms": 40 * i % 1000, "scroll": i % 3} for i in range(20)]
features = {}
for event in log:
    views = features.setdefault(event["item"], [0, 0.0, 0])
    views[0] += 1
    views[1] += event["ms"] / 1000.0
    views[2] += event["scroll"]
score = 0.0
for item in sorted(features):
    count, seconds, scroll = features[item]
    score += 0.3 * count + 0.5 * seconds + 0.2 * scroll
