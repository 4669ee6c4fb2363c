# Clicks and their prices by item and minute, with walle.data. vm_data_plain.py does the same by hand.
import walle
from walle import data

clicks = data.Filter(data.events(), 'kind == "click" && price > 10')
rows = data.TimeWindow(data.KeyBy(clicks, 'item'), 60000).aggregate(
    n=data.count(), total=data.sum('price'), low=data.min('price'), high=data.max('price'), mean=data.mean('price'))
total = 0
for row in rows:
    total += row.n * 3 + row.total * 5 + row.low * 7 + row.high * 11 + int(row.mean * 1000) + row.start % 1000003
walle.result([len(rows), total])
