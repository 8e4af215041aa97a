"""A contestant that counts in steps of a number: `python -m tests.helpers.counting --one NUMBER`."""

import sys
from itertools import count

from benchmarks.turns import take_part

if __name__ == "__main__":
    step = int(sys.argv[2])
    take_part(count(step, step))
