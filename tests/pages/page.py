"""The command blocks of a Markdown page.

A block with lines `$ command` shows everything that each command prints; one with lines `sextant ...`,
`build/sextant ...` or `python3 ...` only promises that they succeed. In an output a line `…` stands for any number of
lines, and `…` within a line for any text. Comments right before a block say more, one thing a line:

    <!-- pages: long -->               takes over ten seconds: run with SXT_LONG=1
    <!-- pages: gpu -->                needs a GPU (hosts: several hosts, install: a fresh machine)
    <!-- pages: example -->            names files and hosts that nobody has: not run
    <!-- pages: shows COMMAND -->      the block is the output of COMMAND
    <!-- pages: add OPTIONS -->        appended to each `sextant train`, to shorten it
    <!-- pages: before COMMAND -->     run before the block, its output is not looked at

A command in the text, in backquotes, is run as well if it is whole: with a value, a number or a path
(else it is the name of a command), and without words in capitals that stand for something. It must succeed.
"""

import dataclasses
import re

WORDS = {"long", "gpu", "hosts", "install", "example", "shows", "add", "before"}
ELSEWHERE = ("gpu", "hosts", "install", "example")
IS_PROGRAM = re.compile(r"(?:build/)?sextant(?:-bench)? |python3 ")


IN_TEXT = re.compile(r"`((?:build/)?sextant [^`]+)`")
STANDS_FOR = re.compile(r"\[|…|<|\b[A-Z]+\b(?!\d)")
HAS_VALUE = re.compile(r"[\d./=]")
QUICK = re.compile(r"sextant (?:plan|simulate|config) | --dry-run| --pictures ")
GIVEN = ("configs/", "hardware/", "docs/", "tests/")  # folders whose files a command may name


class BadPage(Exception):
    """A block or a comment that cannot be understood."""


@dataclasses.dataclass
class Command:
    text: str
    line: int
    shown: list  # lines of output; None: not shown
    shown_at: int = 0  # line of the first of them


@dataclasses.dataclass
class Block:
    line: int
    commands: list
    long: bool = False
    elsewhere: str = ""
    add: str = ""
    before: list = dataclasses.field(default_factory=list)


def notes_of(comment, where):
    """(word, rest) of each part of a comment."""
    out = []
    for part in comment.split("\n"):
        word, _, rest = part.strip().partition(" ")
        if not word:
            continue
        if word not in WORDS:
            raise BadPage(f"{where}: '{word}' is none of {', '.join(sorted(WORDS))}")
        out.append((word, rest.strip()))
    return out


def joined(lines, first):
    """Lines that end with a backslash or in quotes, with those that follow: (text, next index)."""
    text = lines[first]
    while text.endswith("\\"):
        first += 1
        text = text[:-1].rstrip() + " " + lines[first].strip()
    while text.count('"') % 2 == 1 and first + 1 < len(lines):
        first += 1
        text += "\n" + lines[first]
    return text, first + 1


def commands_of(lines, line):
    """The commands of a block whose first line has this number."""
    out = []
    shows_output = any(text.startswith("$ ") for text in lines)
    index = 0
    while index < len(lines):
        start = index
        text = lines[index]
        if shows_output and text.startswith("$ "):
            text, index = joined(lines, index)
            out.append(Command(text[2:], line + start, [], line + index))
            continue
        if not shows_output and IS_PROGRAM.match(text):
            text, index = joined(lines, index)
            out.append(Command(text, line + start, None))
            continue
        if shows_output and out:
            out[-1].shown.append(text)
        elif shows_output and text:
            raise BadPage(f"line {line + start}: output without a command")
        index += 1
    return out


def make_block(notes, lines, line):
    """None for a block without commands."""
    commands = []
    for word, rest in notes:
        if word == "shows":
            commands = [Command(rest, line, list(lines), line)]
    block = Block(line, commands or commands_of(lines, line))
    for word, rest in notes:
        if word == "long":
            block.long = True
        elif word in ELSEWHERE:
            block.elsewhere = word
        elif word == "add":
            block.add = rest
        elif word == "before":
            block.before.append(rest)
    return block if block.commands or block.before else None


def in_text(text, line):
    """Blocks of the commands in a line of text."""
    out = []
    for command in IN_TEXT.findall(text):
        words = command.split()[1:]
        files = [word for word in words if word.endswith((".toml", ".csv", ".sh", ".out"))]
        if STANDS_FOR.search(command) or not any(HAS_VALUE.search(word) for word in words):
            continue
        block = Block(line, [Command(command, line, None)], long=not QUICK.search(command))
        if not all(file.startswith(GIVEN) for file in files):
            block.elsewhere = "example"
        elif "cuda" in words:
            block.elsewhere = "gpu"
        out.append(block)
    return out


def blocks_of(text, name):
    """All blocks of a page, in order."""
    out, notes, lines = [], [], text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith("<!-- pages:"):
            first = index
            while "-->" not in lines[index]:
                index += 1
            comment = "\n".join(lines[first:index + 1])
            notes += notes_of(comment[len("<!-- pages:"):comment.index("-->")],
                              f"{name}:{first + 1}")
        elif line.startswith("```"):
            first = index + 1
            index = first
            while not lines[index].startswith("```"):
                index += 1
            block = make_block(notes, lines[first:index], first + 1)
            if block:
                out.append(block)
            notes = []
        elif line.strip() and notes:
            raise BadPage(f"{name}:{index + 1}: a comment 'pages:' stands right before a block")
        else:
            out += in_text(line, index + 1)
        index += 1
    return out
