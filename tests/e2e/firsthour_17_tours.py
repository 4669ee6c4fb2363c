#!/usr/bin/env python3
"""README.md fits on three screens, and each of its six tours has at most ten lines of commands and ends with what one should see;
test_readme.py runs the commands and looks for that."""
import os
import unittest

from page_commands import blocks
from test_readme import seen, tours
from walle_stack import SOURCE

LINES_MAX = 150
COMMANDS_MAX = 10


class Page(unittest.TestCase):
    def test_every_tour_has_commands_and_an_end(self):
        found = list(tours())
        self.assertEqual(len(found), 6)
        for title, text, _ in found:
            with self.subTest(title=title):
                commands = "".join(script for script, _ in blocks(text)).splitlines()
                self.assertGreater(len(commands), 2)
                self.assertLessEqual(len(commands), COMMANDS_MAX)
                self.assertGreater(len(seen(text)), 1)

    def test_the_page_is_short(self):
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            self.assertLessEqual(len(file.read().splitlines()), LINES_MAX)


if __name__ == "__main__":
    unittest.main()
