# What vm_data.py does, written by hand in Python over the same events.
import walle
from walle import data

windows = {}
for event in data.events():
    if event.kind != 'click':
        continue
    price = event.price
    if price <= 10:
        continue
    key = (event.item, event.time // 60000 * 60000)
    row = windows.get(key)
    if row is None:
        windows[key] = [1, price, price, price]
    else:
        row[0] += 1
        row[1] += price
        if price < row[2]:
            row[2] = price
        if price > row[3]:
            row[3] = price
walle.result(sorted([key[0], key[1], row[0], row[1], row[2], row[3], row[1] / row[0]] for key, row in windows.items()))
