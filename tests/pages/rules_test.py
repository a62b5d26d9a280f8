#!/usr/bin/env python3
"""How pages are read and outputs compared."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402
import mend  # noqa: E402
import page  # noqa: E402

PAGE = """# A page

```
$ sextant one
printed
…
$ sextant two \\
    --more | tail -1
```
<!-- pages: long
     add --train.steps=2 -->

```bash
build/sextant train a.toml     # why
python3 -c "
print(1)
"
```
<!-- pages: shows sextant demo -->
```
loss 1
```
```toml
[model]
```
"""


class Blocks(unittest.TestCase):
    def test_commands_outputs_and_comments(self):
        one, two, three = page.blocks_of(PAGE, "page.md")
        self.assertEqual([(command.text, command.line, command.shown) for command in one.commands],
                         [("sextant one", 4, ["printed", "…"]),
                          ("sextant two --more | tail -1", 7, [])])
        self.assertEqual([command.text for command in two.commands],
                         ["build/sextant train a.toml     # why", 'python3 -c "\nprint(1)\n"'])
        self.assertIsNone(two.commands[0].shown)
        self.assertTrue(two.long)
        self.assertEqual(two.add, "--train.steps=2")
        self.assertEqual(three.commands[0].text, "sextant demo")
        self.assertEqual(three.commands[0].shown, ["loss 1"])

    def test_whole_commands_in_the_text_are_run(self):
        blocks = page.blocks_of("`sextant verify`, `sextant eval CKPT --batch 8`, "
                                "`sextant verify configs/a.toml` and\n"
                                "`sextant plan --cluster 8xA100`, "
                                "`sextant bench step --device cuda --seq 8`\n", "page.md")
        self.assertEqual([(block.commands[0].text, block.line, block.long, block.elsewhere)
                          for block in blocks],
                         [("sextant verify configs/a.toml", 1, True, ""),
                          ("sextant plan --cluster 8xA100", 2, False, ""),
                          ("sextant bench step --device cuda --seq 8", 2, True, "gpu")])

    def test_a_command_in_the_text_needs_files_that_the_page_makes(self):
        text = "`sextant simulate run.toml`\n"
        with self.assertRaisesRegex(page.BadPage, "nothing has made run.toml"):
            page.blocks_of(text, "page.md")
        made = page.blocks_of("<!-- pages: before cp a run.toml -->\n" + text, "page.md")[0]
        self.assertEqual((made.before, made.long), (["cp a run.toml"], False))
        self.assertTrue(page.blocks_of("<!-- pages: long -->\n```\nsextant plan --out run.toml\n"
                                       "```\n" + text, "page.md")[1].long)
        example = page.blocks_of("<!-- pages: example for eight GPUs -->\n" + text, "page.md")[0]
        self.assertEqual((example.elsewhere, example.reason), ("example", "for eight GPUs"))

    def test_a_command_in_the_text_is_not_run_twice(self):
        text = "```\nsextant plan --top 3   # why\n```\nSee `sextant plan --top 3`.\n"
        self.assertEqual(len(page.blocks_of(text, "page.md")), 1)

    def test_a_command_of_a_block_may_be_skipped_with_a_reason(self):
        block, = page.blocks_of("<!-- pages: skip srun there is no Slurm -->\n"
                                "```\nmpirun -n 2 sextant\nsrun -n 2 sextant\n```\n", "page.md")
        self.assertEqual([command.skipped for command in block.commands],
                         ["", "there is no Slurm"])

    def test_mistakes_are_named(self):
        for text in ["<!-- pages: example -->\n```\nsextant x\n```\n",
                     "<!-- pages: skip srun why -->\n```\nsextant x\n```\n",
                     "<!-- pages: lnog -->\n```\n```\n", "<!-- pages: long -->\ntext\n",
                     "```\nfirst\n$ sextant x\n```\n",
                     "```\nsextant x\ncp a b\n```\n"]:
            with self.assertRaises(page.BadPage):
                page.blocks_of(text, "page.md")


class Comparison(unittest.TestCase):
    def same(self, shown, printed, command="sextant train"):
        return compare.first_difference(shown, printed, command) is None

    def test_lines_must_be_equal(self):
        self.assertTrue(self.same(["a 1", "b  2"], ["a 1", "b 2"]))
        self.assertFalse(self.same(["loss 1.2345"], ["loss 1.2346"]))
        self.assertFalse(self.same(["a"], ["a", "b"]))
        self.assertFalse(self.same(["a", "b"], ["a"]))
        self.assertEqual(compare.first_difference(["a", "b", "c"], ["a", "x", "c"], ""), (1, 1))

    def test_dots_stand_for_lines_and_text(self):
        self.assertTrue(self.same(["…", "c"], ["a", "b", "c"]))
        self.assertTrue(self.same(["a", "…"], ["a"]))
        self.assertTrue(self.same(["a", "…", "b", "…"], ["a", "b", "b", "c"]))
        self.assertFalse(self.same(["a", "…", "b"], ["a", "b", "c"]))
        self.assertTrue(self.same(["rank 2 on … was killed"], ["rank 2 on node7 was killed"]))
        self.assertFalse(self.same(["rank 2 on … was killed"], ["rank 3 on node7 was killed"]))

    def test_numbers_of_the_machine_do_not_count(self):
        self.assertTrue(self.same(
            ["step 1/2  loss 4.7  97.3k tok/s  0.134 TFLOP/s  mfu 57.4%  mem 41 MiB  10.5 ms"],
            ["step 1/2  loss 4.7  980 tok/s  0.2 TFLOP/s  mfu 7.0%  mem 41 MiB  110 ms"]))
        self.assertFalse(self.same(["mem 41 MiB  10.5 ms"], ["mem 42 MiB  10.5 ms"]))
        self.assertTrue(self.same(['{"loss":1.5,"tokens_per_s":2.5e3}'],
                                  ['{"loss":1.5,"tokens_per_s":17}']))
        self.assertFalse(self.same(['{"loss":1.5}'], ['{"loss":1.6}']))
        self.assertTrue(self.same(["peak   of 23.54 GiB"], ["peak of 1.00 TiB"]))

    def test_what_is_computed_is_compared(self):
        command = "sextant simulate run.toml"
        self.assertFalse(self.same(["step 23.7 ms"], ["step 23.8 ms"], command))
        self.assertTrue(self.same(["30 layouts, 0.11 s"], ["30 layouts, 4.2 s"], "sextant plan x"))


class Mending(unittest.TestCase):
    def test_shows_as_much_as_before(self):
        printed = ["head", "a 1", "b 2", "c 3  7.0 ms", "end"]
        self.assertEqual(mend.mended(["…", "b 9", "c 3  6.0 ms"], printed, ""),
                         ["…", "b 2", "c 3  6.0 ms", "…"])
        self.assertEqual(mend.mended(["a 7"], ["a 1", "b 2"], ""), ["a 1", "b 2"])


if __name__ == "__main__":
    unittest.main()
