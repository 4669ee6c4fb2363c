# Clicks and their prices by item and minute, with walle.data. vm_data_plain.py does the same by hand.
import walle
from walle import data

clicks = data.Filter(data.events(), 'kind == "click" && price > 10')
rows = data.TimeWindow(data.KeyBy(clicks, 'item'), 60000).aggregate(
    n=data.count(), total=data.sum('price'), low=data.min('price'), high=data.max('price'), mean=data.mean('price'))
walle.result(sorted([row.key, row.start, row.n, row.total, row.low, row.high, row.mean] for row in rows))
