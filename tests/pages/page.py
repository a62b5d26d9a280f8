"""The command blocks of a Markdown page.

A block with lines `$ command` shows everything that each command prints; one with lines that begin with a program
(`sextant ...`, `mpirun ...`, `python3 ...`: see IS_PROGRAM) only promises that they succeed. In an output a line `…`
stands for any number of lines, and `…` within a line for any text. Comments right before a block, or before a line of
text with a command, say more, one thing a line:

    <!-- pages: long -->               takes over ten seconds: run with SXT_LONG=1
    <!-- pages: gpu -->                needs a GPU: run by scripts/gpu-check.sh
    <!-- pages: hosts -->              needs the hosts a and b: run by tests/mpi/two_hosts_pages_test.sh
    <!-- pages: install WHY -->        a fresh machine, a build: run as WHY says
    <!-- pages: example WHY -->        not run, and why
    <!-- pages: skip PROGRAM WHY -->   of the block, what begins with PROGRAM is not run, and why
    <!-- pages: shows COMMAND -->      the block is the output of COMMAND
    <!-- pages: add OPTIONS -->        appended to each `sextant train`, to shorten it
    <!-- pages: before COMMAND -->     run before the block, its output is not looked at

A command in the text, in backquotes, is run as well if it is whole: with a value, a number or a path
(else it is the name of a command), and without words in capitals that stand for something. It must succeed. The files
that it names must be there or have been made by the page; one that the page has run already is not run again.
"""

import dataclasses
import re

ELSEWHERE = ("gpu", "hosts", "install", "example")
WORDS = {*ELSEWHERE, "long", "skip", "shows", "add", "before"}
WITH_REASON = ("install", "example")
IS_PROGRAM = re.compile(
    r"(?:build/)?sextant(?:-bench)? |(?:python3|mpirun|srun|torchrun|ctest) |\./|scripts/")


IN_TEXT = re.compile(r"`((?:build/)?sextant [^`]+)`")
STANDS_FOR = re.compile(r"\[|…|<|\b[A-Z]+\b(?!\d)")
HAS_VALUE = re.compile(r"[\d./=]")
FILES = (".toml", ".csv", ".sh", ".out")
QUICK = re.compile(r"sextant (?:plan|simulate|config) | --dry-run| --pictures ")
GIVEN = ("bench/", "configs/", "hardware/", "docs/", "tests/")  # folders whose files a command may name


class BadPage(Exception):
    """A block or a comment that cannot be understood."""


@dataclasses.dataclass
class Command:
    text: str
    line: int
    shown: list  # lines of output; None: not shown
    shown_at: int = 0  # line of the first of them
    skipped: str = ""  # why it is not run with the others of its block


@dataclasses.dataclass
class Block:
    line: int
    commands: list
    long: bool = False
    elsewhere: str = ""
    reason: str = ""
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
        elif out and text:
            raise BadPage(f"line {line + start}: '{text}' would not be run: see IS_PROGRAM")
        index += 1
    return out


def heed(notes, block, where):
    """What the comments say of a block."""
    for word, rest in notes:
        if word == "long":
            block.long = True
        elif word in ELSEWHERE:
            block.elsewhere, block.reason = word, rest
            if word in WITH_REASON and not rest:
                raise BadPage(f"{where}: '{word}' needs a reason")
        elif word == "skip":
            program, _, reason = rest.partition(" ")
            found = [command for command in block.commands if command.text.startswith(program + " ")]
            if not found or not reason:
                raise BadPage(f"{where}: 'skip' needs a program of the block and a reason")
            for command in found:
                command.skipped = reason
        elif word == "add":
            block.add = rest
        elif word == "before":
            block.before.append(rest)


def make_block(notes, lines, line, where):
    """None for a block without commands."""
    commands = []
    for word, rest in notes:
        if word == "shows":
            commands = [Command(rest, line, list(lines), line)]
    block = Block(line, commands or commands_of(lines, line))
    heed(notes, block, where)
    return block if block.commands or block.before else None


def without_comment(command):
    return command.partition("  #")[0].strip()


class Earlier:
    """What the page has run, and which files that may have made."""

    def __init__(self):
        self.commands = {}  # text: whether it is long
        self.files = {}  # name: likewise

    def take(self, block):
        if block.elsewhere:
            return
        texts = [without_comment(command.text) for command in block.commands if not command.skipped]
        for text in texts:
            self.commands.setdefault(text, block.long)
        for word in re.split(r"[\s='\"]+", " ".join(texts + block.before)):
            if word.endswith(FILES):
                self.files[word] = self.files.get(word, True) and block.long


def in_text(text, line, notes, earlier, where):
    """Blocks of the commands in a line of text."""
    out = []
    for command in IN_TEXT.findall(text):
        words = command.split()[1:]
        if STANDS_FOR.search(command) or not any(HAS_VALUE.search(word) for word in words):
            continue
        block = Block(line, [Command(command, line, None)], long=not QUICK.search(command))
        heed(notes, block, where)
        notes = []  # one that makes files does so once
        if not block.elsewhere and command in earlier.commands:
            continue
        own = Earlier()
        own.take(Block(line, [], before=block.before))
        files = [word for word in words if word.endswith(FILES) and not word.startswith(GIVEN)
                 and word not in own.files]
        unknown = [word for word in files
                   if word not in earlier.files and not word.startswith("out/")]
        if unknown and not block.elsewhere:
            raise BadPage(f"{where}: nothing has made {', '.join(unknown)} for `{command}`")
        block.long = block.long or any(earlier.files.get(word, False) for word in files)
        if "cuda" in words:
            block.elsewhere = "gpu"
        earlier.take(block)
        out.append(block)
    return out


def blocks_of(text, name):
    """All blocks of a page, in order."""
    out, notes, lines, earlier = [], [], text.split("\n"), Earlier()
    index = 0
    while index < len(lines):
        line, where = lines[index], f"{name}:{index + 1}"
        if line.startswith("<!-- pages:"):
            first = index
            while "-->" not in lines[index]:
                index += 1
            comment = "\n".join(lines[first:index + 1])
            notes += notes_of(comment[len("<!-- pages:"):comment.index("-->")], where)
        elif line.startswith("```"):
            first = index + 1
            index = first
            while not lines[index].startswith("```"):
                index += 1
            block = make_block(notes, lines[first:index], first + 1, where)
            if block:
                earlier.take(block)
                out.append(block)
            notes = []
        elif line.strip():
            found = in_text(line, index + 1, notes, earlier, where)
            if notes and not found:
                raise BadPage(f"{where}: a comment 'pages:' stands right before a block or a command")
            out += found
            notes = []
        index += 1
    return out
