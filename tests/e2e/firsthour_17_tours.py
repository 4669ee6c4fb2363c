#!/usr/bin/env python3
"""Each of README.md's five tours has commands and ends with what one should see; test_readme.py runs the commands and looks for that."""
import unittest

from test_readme import seen, tours


class Page(unittest.TestCase):
    def test_every_tour_has_commands_and_an_end(self):
        found = list(tours())
        self.assertEqual(len(found), 5)
        for title, text, _ in found:
            with self.subTest(title=title):
                if "ML engineer" in title:  # its commands need what fetches models
                    self.assertIn("```\n/usr/bin/python3", text)
                else:
                    self.assertRegex(text, r"(?m)^```sh$")
                    self.assertGreater(len(seen(text)), 2)


if __name__ == "__main__":
    unittest.main()
