"""What the pages quote of the records: made from them, never typed.

    python -m benchmarks.quotes

In a page, what stands between `<!-- quote NAME -->` and `<!-- end -->`, a table or a few words, is written by this
program from `results/` and `docs/theory/`. A test holds the pages to it, and the site is built with it.
"""
