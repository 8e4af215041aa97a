"""Has a model collapsed? Statistics in one pass, measures of them, and the answer in words."""
