"""Tokenizers like those of published models, and text that is hard to tokenize alike."""

import json
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UNICODE_TEXT = (
    "Zażółć gęślą jaźń. Fähre über den Rhein, größer, Straße. Où est le café? ¿Dónde está el niño? "
    "Привет, мир! Как дела сегодня? Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया। "
    "こんにちは世界。今日はいい天気ですね。你好，世界！今天天气很好。안녕하세요 세계. สวัสดีชาวโลก "
    "Tiếng Việt có dấu. 😀 😂 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ½ ² Ⅷ ① ٣٤٥ ≈ → € “quotes” — dash … "
) * 20


def train(tokenizer, text, vocab_size, special_tokens):
    """Trains on the text, with every byte in the vocabulary."""
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text[i : i + 4096] for i in range(0, len(text), 4096)], trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def with_whole_words(tokenizer, words):
    """Adds tokens that no merge makes: what ignore_merges is for."""
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    for word in words:
        vocab.setdefault(word, len(vocab))
    return Tokenizer.from_str(json.dumps(data))


def gpt2_like(text, vocab_size=2000):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    train(tokenizer, text, vocab_size, ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer


def llama3_like(text, vocab_size=2000):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = split_then_bytes(LLAMA3_PATTERN)
    train(tokenizer, text, vocab_size, [])
    tokenizer = with_whole_words(tokenizer, ["Ġunmergeable", "zqxj", "the lamp", "Ġä½łå¥½", "qqq"])
    tokenizer.add_special_tokens([
        "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
        "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
            special_tokens=[("<|begin_of_text|>", begin)]),
    ])
    return tokenizer


def qwen_like(text, vocab_size=1500):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split_then_bytes(QWEN_PATTERN)
    train(tokenizer, text, vocab_size, [])
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=True, special=False)])
    return tokenizer


def odd(text, vocab_size=1200):
    """Every option that is not on the main road."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Split(Regex(GPT4O_PATTERN), behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True),
    ])
    train(tokenizer, text, vocab_size, ["<|endoftext|>"])
    tokenizer.add_tokens([
        AddedToken("lamp", single_word=True, normalized=False),
        AddedToken("[L]", lstrip=True, normalized=False),
        AddedToken("[R]", rstrip=True, normalized=True),
        AddedToken("[LR]", lstrip=True, rstrip=True, special=True),
        AddedToken("the", normalized=True),
        AddedToken("theta", normalized=True),
        AddedToken("über", single_word=True, normalized=True),
    ])
    return tokenizer


def with_characters(text, byte_tokens, vocab_size, edit, **model):
    """BPE over characters: few of them known, the bytes `byte_tokens` as <0x41>."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in byte_tokens]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **model))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=tokens, limit_alphabet=60,
                                  show_progress=False)
    tokenizer.train_from_iterator([text[i : i + 4096] for i in range(0, len(text), 4096)], trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    edit(data)
    return Tokenizer.from_str(json.dumps(data))


LLAMA2_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
BEGIN = {"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}


def llama2_like(text, vocab_size=1500):
    """As Llama 2, Mistral v0.1 and TinyLlama: spaces by the normalizer, no words."""
    def edit(data):
        data["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
        data["pre_tokenizer"] = None
        data["decoder"] = LLAMA2_DECODER
        data["post_processor"] = BEGIN
    return with_characters(text, range(256), vocab_size, edit, byte_fallback=True, fuse_unk=True)


def mistral_like(text, vocab_size=1500):
    """As later files of Mistral: Metaspace at the first piece only, not split."""
    def edit(data):
        data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁",
                                 "prepend_scheme": "first", "split": False}
        data["decoder"] = LLAMA2_DECODER
        data["post_processor"] = BEGIN
    return with_characters(text, range(256), vocab_size, edit, byte_fallback=True, fuse_unk=True)


def spaced_words(text, vocab_size=1200):
    """Metaspace words, some byte tokens only, unknown characters one by one."""
    def edit(data):
        data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁",
                                 "prepend_scheme": "always", "split": True}
        data["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
                           "split": True}
    return with_characters(text, range(0x80, 0xE8), vocab_size, edit, byte_fallback=True)


def splits_shown(pattern):
    """No merges, and a space before every piece that the pattern cuts."""
    vocab = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
    ])
    return tokenizer


def characters():
    """All characters; of large blocks of one kind, every sixteenth."""
    uniform = [(0x3500, 0x4D00), (0x5000, 0x9F00), (0xAD00, 0xD700), (0xE000, 0xF800),
               (0x17100, 0x18700), (0x20100, 0x2A600), (0x2A800, 0x2B700), (0x30100, 0x31300),
               (0x31400, 0x32300), (0x33000, 0xE0000), (0xE0200, 0x110000)]
    inside = {code for first, last in uniform for code in range(first, last) if code % 16}
    return [code for code in range(0x110000)
            if code not in inside and not 0xD800 <= code < 0xE000
            and (code < 0x33000 or 0xE0000 <= code < 0xE0200 or code % 4096 == 0)]


SPACES = "\t\n\v\f\r \x1c\x1f\x85\xa0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
SNIPPETS = (
    ["'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'LL", "'d", "'D", "\u2019s", "'\u017f",
     "don't", "I'll", "WE'VE", "they're", "'", "''", "'\u212a"]
    + ["<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_start|>",
       "<|reserved_special_token_0|>", "<|end", "<think>", "<|", "|>", "[L]", "[R]", "[LR]",
       "lamp", "lamps", "the", "theta", "über"]
    + ["0", "12", "345", "6789", "12345678901234567890", "3.14", "1,000", "٣٤٥", "½", "Ⅷ", "①", "²"]
    + ["    ", "\n\n\n", "\r\n", " \n ", "\t\t", "  a", "   \n   b", "\n \n"]
    + ["é", "e\u0301", "a\u0323\u0301", "a\u0301\u0323", "한국", "\u1112\u1161\u11ab", "\u0344",
       "Å", "\u212b", "\u0958", "\u2126", "ﬁ", "ß", "İ", "ı", "ǆ", "\u1fbe"]
    + ["你好", "世界", "こんにちは", "안녕", "สวัสดี", "नमस्ते", "مرحبا", "שלום", "привет", "𝔘𝔫𝔦", "𐍈"]
    + ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "❤️", "\u200d", "\ufe0f"]
    + ["unmergeable", " unmergeable", "zqxj", "qqq", "hello", "World", "HELLO", "camelCase", "snake_case", "x=1;", "/* c */", "https://a.b/c?d=e",
       "a" * 30, "\u0000", "\u0001", "\u007f", "_", "__init__", "-->", "...", "!!!", "$%^&"]
)


def random_character(rng):
    kind = rng.randrange(12)
    if kind < 4:
        return chr(rng.randrange(0x20, 0x7F))
    if kind == 4:
        return chr(rng.randrange(0x00, 0x300))
    if kind == 5:
        return rng.choice(SPACES)
    if kind == 6:
        return chr(rng.randrange(0x300, 0x370))  # combining marks
    if kind == 7:
        return chr(rng.randrange(0x370, 0x3000))
    if kind == 8:
        return chr(rng.randrange(0x3000, 0xD800))
    if kind == 9:
        return chr(rng.randrange(0xE000, 0x10000))
    if kind == 10:
        return chr(rng.randrange(0x1F000, 0x20000))
    return chr(rng.randrange(0x10000, 0x110000))


def random_texts(seed, count, corpus):
    """Texts of every plane: soups of characters, snippets and stretches of real text."""
    rng = random.Random(seed)
    texts = ["", " ", "\n", "a", "\u0301"]
    while len(texts) < count:
        parts = []
        for _ in range(rng.randrange(1, 14)):
            kind = rng.randrange(4)
            if kind == 0:
                parts.append("".join(random_character(rng) for _ in range(rng.randrange(1, 9))))
            elif kind == 1:
                parts.append(rng.choice(SNIPPETS))
            elif kind == 2:
                parts.append(rng.choice(SPACES) * rng.randrange(1, 4))
            else:
                start = rng.randrange(len(corpus) - 40)
                parts.append(corpus[start : start + rng.randrange(1, 40)])
        texts.append("".join(parts))
    return texts


def write_fixtures(directory, corpus):
    """The files of tests/data/tokenizers: small tokenizers, and texts with the reference's ids."""
    for make in [gpt2_like, llama3_like, qwen_like, odd]:
        name = make.__name__.replace("_", "-")
        tokenizer = make(corpus, 500)
        tokenizer.save(f"{directory}/{name}.json", pretty=False)
        texts = random_texts("fixtures", 150, corpus)
        cases = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids,
                  "special": tokenizer.encode(text).ids} for text in texts]
        with open(f"{directory}/{name}.expected.json", "w", encoding="utf-8") as file:
            json.dump(cases, file)


if __name__ == "__main__":  # tokenizer_cases.py DIRECTORY < corpus
    write_fixtures(sys.argv[1], sys.stdin.read() + UNICODE_TEXT)
