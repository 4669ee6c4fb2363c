"""Hostile clients against a running gateway: one module an attack, used by tests (tests/e2e/hardening_*.py) and
by `./bench/run attack`.

A module NAME.py has

    POINT = 5                      # its number in docs/SECURITY.md's table
    def attack(target, stop):      # runs until stop.is_set(); bounded in rate and count; returns a dict of counts
        ...

and is run in a process of its own:

    python3 -m hostile NAME --h2c PORT --tls PORT [--seconds 10] [--share 0.1] [--seed N]   # with tests/ in PYTHONPATH

which prints the counts as one line of JSON. An attack is a stranger's: it knows addresses, nothing else, unless its
module says so. It never fails because the gateway closes, refuses or resets: that is what it counts.
"""
