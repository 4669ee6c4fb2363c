"""Runs the commands of the tours in README.md from the page, and looks for what the page says one should see."""
import os
import re
import unittest

from page_commands import run_page
from walle_stack import SOURCE


def tours():
    """{title: text} of the five tours."""
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
        parts = re.split(r"^## ", file.read(), flags=re.M)
    return {part.split("\n", 1)[0]: part for part in parts if part.startswith("Five minutes for ")}


def seen(text):
    """Lines of the blocks marked text, as patterns."""
    lines = "".join(re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S)).splitlines()
    return [".*".join(re.escape(part) for part in line.split("…")) for line in lines]


class Tours(unittest.TestCase):
    def test_every_command_of_the_tours(self):
        output = run_page(self, "README.md", least=5)
        for title, text in tours().items():
            for pattern in seen(text):
                with self.subTest(title=title, line=pattern):
                    self.assertRegex(output, re.compile("^" + pattern, re.M))


if __name__ == "__main__":
    unittest.main()
