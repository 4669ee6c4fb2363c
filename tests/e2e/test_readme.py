"""Runs the commands of the tours in README.md from the page, and looks for what the page says one should see."""
import os
import re
import unittest

from page_commands import blocks, outputs, run_page
from walle_stack import SOURCE


def tours():
    """(title, text, numbers of its blocks) of each of the five tours."""
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
        parts = re.split(r"^## ", file.read(), flags=re.M)
    number = 0
    for part in parts:
        own = range(number, number + len(blocks(part)))
        number = own.stop
        if part.startswith("Five minutes for "):
            yield part.split("\n", 1)[0], part, own


def seen(text):
    """Lines of the blocks marked text, as patterns."""
    lines = "".join(re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S)).splitlines()
    return [".*".join(re.escape(part) for part in line.split("…")) for line in lines]


class Tours(unittest.TestCase):
    def test_every_command_of_the_tours(self):
        said = outputs(run_page(self, "README.md", least=5))
        found = list(tours())
        self.assertEqual(len(found), 5)
        for title, text, own in found:
            with self.subTest(title=title):
                self.assertEqual(len(own) > 0, len(seen(text)) > 0)  # who is run says what one should see
            output = "".join(said[number] for number in own)
            for pattern in seen(text):
                with self.subTest(title=title, line=pattern):
                    self.assertRegex(output, re.compile("^" + pattern, re.M))


if __name__ == "__main__":
    unittest.main()
