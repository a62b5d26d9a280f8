"""Sums as records with a prompt and a completion: make_sums.py > sums.jsonl"""

import json


def main():
    state = 29
    for _ in range(70):
        a = state % 50
        state = (state * 1103515245 + 12345) % 2**31
        b = (state >> 8) % 50
        state = (state * 1103515245 + 12345) % 2**31 >> 3
        print(json.dumps({"prompt": f"{a} + {b} = ", "completion": str(a + b)}))


main()
