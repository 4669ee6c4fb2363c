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
total = 0
for key in windows:
    n, price, low, high = windows[key]
    total += n * 3 + price * 5 + low * 7 + high * 11 + int(price / n * 1000) + key[1] % 1000003
walle.result([len(windows), total])
