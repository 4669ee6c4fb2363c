"""Runs the commands of the tours in README.md from the page."""
import unittest

from page_commands import run_page


class Tours(unittest.TestCase):
    def test_every_command_of_the_tours(self):
        run_page(self, "README.md", least=4)


if __name__ == "__main__":
    unittest.main()
