# A middle task: features of 300 events, and JSON. bench/container/container_tasks.py runs it.
import json

events, t = [], 0
for i in range(300):
    t += 50 + i * 7919 % 400
    events.append((i * 31 % 17, ("view", "view", "click", "buy")[i * 13 % 4], t, 5 + i * 37 % 90))
items, dwell, last = {}, {}, 0
for item, kind, time, price in events:
    row = items.get(item)
    if row is None:
        row = items[item] = {"views": 0, "clicks": 0, "spent": 0, "first": time, "last": time}
    if kind == "view":
        row["views"] += 1
    elif kind == "click":
        row["clicks"] += 1
    else:
        row["spent"] += price
    row["last"] = time
    dwell.setdefault(item, []).append(time - last)
    last = time
best = sorted(items, key=lambda item: (-items[item]["spent"], item))[:5]
text = json.dumps([{"item": item, "row": items[item], "dwell": sum(dwell[item]) // len(dwell[item])} for item in best])
back = json.loads(text)
out = [len(text) > 100, [one["item"] for one in back], sum(one["dwell"] + one["row"]["spent"] for one in back)]
