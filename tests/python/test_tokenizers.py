"""The ids of our tokenizer against those of the `tokenizers` library, live."""

import os
import pathlib
import subprocess

import pytest

import tokenizer_cases as cases

PROBE = pathlib.Path(os.environ["SEXTANT"]).parent / "tokenizer_probe"
COUNT = 10_000


def probe(*arguments, stdin=b""):
    return subprocess.run([str(PROBE), *arguments], input=stdin, capture_output=True, check=True,
                          timeout=300).stdout


def ids_of(path, texts, *options):
    encoded = [text.encode() for text in texts]
    stdin = b"".join(b"%d\n%s" % (len(text), text) for text in encoded)
    lines = probe("encode", str(path), *options, stdin=stdin).decode().split("\n")
    assert len(lines) == len(texts) + 1
    return [[int(word) for word in line.split()] for line in lines[:-1]]


@pytest.fixture(scope="module")
def corpus():
    return probe("corpus", "400000").decode() + cases.UNICODE_TEXT


@pytest.mark.parametrize("make", [cases.gpt2_like, cases.llama3_like, cases.qwen_like, cases.odd])
def test_ids_equal_the_reference(make, corpus, tmp_path):
    reference = make(corpus)
    path = tmp_path / "tokenizer.json"
    reference.save(str(path))
    texts = cases.random_texts(make.__name__, COUNT, corpus)
    for options, special in [((), False), (("special",), True)]:
        ours = ids_of(path, texts, *options)
        theirs = reference.encode_batch(texts, add_special_tokens=special)
        wrong = [(text, mine, other.ids) for text, mine, other in zip(texts, ours, theirs)
                 if mine != other.ids]
        assert not wrong, f"{len(wrong)} of {len(texts)} differ, first: {wrong[0]!r}"


@pytest.mark.parametrize("pattern", [
    cases.LLAMA3_PATTERN, cases.GPT4O_PATTERN, r"\s+", r"\S+", r"\w+", r"\W", r"[\p{M}\p{S}]+",
    r"\P{L}", r"\p{^Nd}+", r"\d+", r"[^\S\n]", r"\D", r"(?i:K|s)", r"^.|.$"])
def test_every_character(pattern, corpus, tmp_path):
    """Class by class: where two Unicode versions or dialects disagree, this is where it shows."""
    reference = cases.splits_shown(pattern)
    path = tmp_path / "tokenizer.json"
    reference.save(str(path))
    codes = cases.characters()
    texts = ["".join(f"a{chr(code)}1{chr(code)} {chr(code)}." for code in codes[i : i + 64])
             for i in range(0, len(codes), 64)]
    ours = ids_of(path, texts)
    theirs = reference.encode_batch(texts, add_special_tokens=False)
    wrong = [hex(ord(text[1])) for text, mine, other in zip(texts, ours, theirs)
             if mine != other.ids]
    assert not wrong, f"{len(wrong)} groups of 64 characters differ, at {wrong[:20]}"
