"""Long runs of everything together; `mixed_hostility.py` is the program."""
