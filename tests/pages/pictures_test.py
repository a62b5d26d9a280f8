#!/usr/bin/env python3
"""Every picture of the pages is well-formed, and none of its words lies outside of it."""

import math
import pathlib
import re
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
WIDTH = 0.5  # of a character, in font sizes: of narrow fonts, for this is the least a text takes
FONT = re.compile(r"font(?:-size)?: *(\d+)px")
MOVE = re.compile(r"(translate|rotate)\(([^)]*)\)")


def sizes_of(root):
    """Font size by class, "" for all texts, as the style sheet has it."""
    out = {"": 16.0}
    for style in root.iter(SVG + "style"):
        sheet = re.sub(r"@media[^{]*{(?:[^{}]*{[^{}]*})*[^{}]*}", "", style.text)
        for names, rules in re.findall(r"([^{}]+){([^{}]*)}", sheet):
            found = FONT.search(rules)
            for name in names.split(",") if found else []:
                out[name.strip().removeprefix("text").lstrip(".")] = float(found.group(1))
    return out


def anchors_of(root):
    out = {}
    for style in root.iter(SVG + "style"):
        for name, anchor in re.findall(r"\.(\w+) {[^{}]*text-anchor: (\w+)", style.text):
            out[name] = anchor
    return out


def texts_of(node, size, anchor, sizes, anchors):
    """(words, left, right, baseline, transform) of each text."""
    size = float(node.get("font-size", size))
    anchor = node.get("text-anchor", anchor)
    if node.tag == SVG + "text":
        names = node.get("class", "").split()
        size = float(node.get("font-size", next((sizes[n] for n in names if n in sizes), size)))
        anchor = node.get("text-anchor", next((anchors[n] for n in names if n in anchors), anchor))
        words = "".join(node.itertext())
        width = WIDTH * size * len(words)
        x = float(node.get("x", 0)) - width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        yield words, x, x + width, float(node.get("y", 0)), node.get("transform", "")
    for child in node:
        yield from texts_of(child, size, anchor, sizes, anchors)


def moved(x, y, transform):
    """A point after translations and rotations, of which the last applies first."""
    for kind, numbers in reversed(MOVE.findall(transform)):
        given = [float(number) for number in re.split(r"[ ,]+", numbers.strip())]
        if kind == "translate":
            x, y = x + given[0], y + given[1]
            continue
        angle, cx, cy = math.radians(given[0]), *(given[1:] or (0, 0))
        dx, dy = x - cx, y - cy
        x = cx + dx * math.cos(angle) - dy * math.sin(angle)
        y = cy + dx * math.sin(angle) + dy * math.cos(angle)
    return x, y


def outside(path):
    """Texts of a picture that lie outside of its view box."""
    root = xml.parse(path).getroot()
    left, top, width, height = map(float, root.get("viewBox").split())
    sizes = sizes_of(root)
    out = []
    for words, x0, x1, y, transform in texts_of(root, sizes[""], "start", sizes, anchors_of(root)):
        corners = [moved(x, y, transform) for x in (x0, x1)]
        if not all(left <= a <= left + width and top <= b <= top + height for a, b in corners):
            out.append(words)
    return out


class Pictures(unittest.TestCase):
    def test_words_lie_inside(self):
        pictures = sorted(ROOT.glob("docs/**/*.svg"))
        self.assertGreater(len(pictures), 20)
        for path in pictures:
            with self.subTest(picture=str(path.relative_to(ROOT))):
                self.assertEqual(outside(path), [])

    def test_every_picture_is_shown_by_a_page(self):
        pages = "".join(path.read_text() for path in ROOT.glob("docs/**/*.md"))
        for path in sorted(ROOT.glob("docs/**/*.svg")):
            self.assertIn(f"{path.name})", pages)


if __name__ == "__main__":
    unittest.main()
