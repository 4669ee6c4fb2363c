"""Runs the commands of docs/TUTORIAL.md from the page."""
import unittest

from page_commands import run_page


class Tutorial(unittest.TestCase):
    def test_every_command_of_the_page(self):
        run_page(self, "docs", "TUTORIAL.md", least=10)


if __name__ == "__main__":
    unittest.main()
