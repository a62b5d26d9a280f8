"""The ids of our tokenizer against those of the `tokenizers` library, live."""

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import tokenizer_cases as cases
from program import ids_of, succeed, tokenizer_probe as probe

COUNT = 10_000


@pytest.fixture(scope="module")
def corpus():
    return probe("corpus", "400000").decode() + cases.UNICODE_TEXT


@pytest.mark.parametrize("make", [
    cases.gpt2_like, cases.llama3_like, cases.qwen_like, cases.odd, cases.llama2_like,
    cases.mistral_like, cases.spaced_words])
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


def test_trained_tokenizer_has_the_merges_of_the_reference(corpus, tmp_path):
    """And `tokenizers` loads it and encodes the same."""
    (tmp_path / "text.txt").write_text(corpus)
    out = tmp_path / "made" / "tokenizer.json"
    succeed("data", "train-tokenizer", tmp_path / "text.txt", "--vocab", 1200, "--special", "<|pad|>",
            "--out", out)
    ours = json.loads(out.read_text())
    reference = Tokenizer(models.BPE())
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=1200, min_frequency=2, special_tokens=["<|endoftext|>", "<|pad|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    theirs = json.loads(reference.to_str())
    merges = [" ".join(pair) if isinstance(pair, list) else pair
              for pair in theirs["model"]["merges"]]
    assert ours["model"]["merges"] == merges
    loaded = Tokenizer.from_file(str(out))
    assert loaded.get_vocab_size() == 1200
    texts = cases.random_texts("trained", 2000, corpus)
    assert ids_of(out, texts) == [other.ids for other in loaded.encode_batch(texts)]
    assert loaded.token_to_id("<|endoftext|>") == 1198
