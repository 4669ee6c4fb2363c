# Text in text: as many steps as the product of the lengths.
x = "a" * 60000
y = "a" * 30000 + "b"
while True:
    x.find(y), x.count(y), x.split(y), x.replace(y, ""), x.partition(y)
