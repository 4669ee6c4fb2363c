# Nothing, very often.
while True:
    [] * ((1 << 62) - 1)
    () * ((1 << 62) - 1)
    "" * ((1 << 62) - 1)
