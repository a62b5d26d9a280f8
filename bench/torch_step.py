"""The peer of `sextant bench step`: the same GPT training step in PyTorch on the CPU.

  torch_step.py LAYERS HEADS HIDDEN FFN VOCAB BATCH SEQ STEPS THREADS

fp32, AdamW, clipping, tied head, random tokens. Prints one JSON line with the median over the steps.
bench/torch_step.sh runs it with the environment that makes it fastest.
"""
import json
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

layers, heads, hidden, ffn, vocab, batch, seq, steps, threads = map(int, sys.argv[1:10])
torch.set_num_threads(threads)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)
        mask = torch.full((seq, seq), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, x):
        shape = (x.shape[0], x.shape[1], heads, hidden // heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).split(hidden, 2))
        scores = q @ k.transpose(2, 3) * (1 / math.sqrt(hidden // heads)) + self.mask
        return self.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.blocks(self.tokens(ids) + self.positions(torch.arange(seq)))
        logits = self.norm(x) @ self.tokens.weight.t()
        return F.cross_entropy(logits.view(-1, vocab), targets.view(-1))


model = Gpt()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                              foreach=True)
seconds = []
for step in range(steps + 3):
    ids, targets = torch.randint(vocab, (batch, seq)), torch.randint(vocab, (batch, seq))
    start = time.perf_counter()
    loss = model(ids, targets)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step >= 3:
        seconds.append(time.perf_counter() - start)
median = sorted(seconds)[len(seconds) // 2]
print(json.dumps({"name": "PyTorch " + torch.__version__, "tokens_per_s": batch * seq / median,
                  "step_s": median, "loss": loss.item()}))
