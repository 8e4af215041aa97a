"""A sentence of judgement for every claim, each written for a verdict: another verdict wants another sentence."""

from __future__ import annotations

from collections.abc import Sequence

from feddecorr.studies.claims.claim import FAILS, HOLDS, OPEN, Claim

JUDGEMENTS: dict[int, tuple[str, str]] = {
    1: (
        HOLDS,
        "By the paper's own measure clearly: heterogeneity leaves few singular values above the threshold, because it "
        "shrinks the whole spectrum. The effective rank, which does not know the scale, is lower too, though it does "
        "not fall step by step.",
    ),
    2: (HOLDS, "Local models collapse by both measures, and further than the global one: five dimensions of 128."),
    3: (HOLDS, "The clearest of all effects: the tail of the spectrum rises by a factor of ten to thirty, every time."),
    4: (
        OPEN,
        "The gain is positive on average at alpha 0.05 and 0.1, by less than two points, where the paper has eight and "
        "four; the interval still holds zero, and seeds differ by more: whoever runs one finds anything between a loss "
        "and most of the paper's gain.",
    ),
    5: (OPEN, "Not run yet."),
    6: (
        OPEN,
        "On homogeneous data FedDecorr loses a little here, less than a point on average; that it loses more than one "
        "cannot be excluded yet.",
    ),
    7: (OPEN, "Not run yet."),
    8: (OPEN, "Not run yet."),
    9: (OPEN, "Not run yet."),
    10: (OPEN, "Not run yet with enough seeds."),
    11: (OPEN, "Not run yet."),
    12: (OPEN, "Not run yet."),
    13: (
        OPEN,
        "On average the same accuracy comes in fewer rounds, and more clearly at alpha 0.1; accuracy swings so much "
        "from round to round that the first round above a goal is a matter of luck.",
    ),
    14: (
        HOLDS,
        "The term costs nothing that could be measured in a step. FedProx as it is done here is as cheap, where the "
        "paper's nearly doubles the time: FedDecorr costs not less, only not measurably more. MOON costs a third more. "
        "The rule for this was changed after its benchmark; by the first one it would not hold.",
    ),
    15: (HOLDS, "The loss falls within local training, and from one epoch to the next it hardly ever rises."),
    16: (
        HOLDS,
        "With the matrix G of the proof; the G that the paper prints lacks a term, and misses by up to one and a half "
        "of all growth.",
    ),
    17: (HOLDS, "To the last digits of float64, as it must."),
    18: (
        FAILS,
        "The opposite: the average of the clients' models has a higher rank than they have, at every alpha, without "
        "and with FedDecorr.",
    ),
}
"""By the number of the claim: the verdict that it is written for, and the sentence."""


def judge_in_words(claims: Sequence[Claim]) -> str:
    """Return a line for every claim; refuse a sentence whose verdict is no longer the one that was found."""
    lines = []
    for claim in claims:
        written_for, sentence = JUDGEMENTS[claim.number]
        if claim.verdict != written_for:
            raise ValueError(
                f"claim {claim.number} is '{claim.verdict}' now, and its sentence was written for '{written_for}': "
                "write another one in benchmarks/quotes/judgements.py"
            )
        verdict = "cannot be told yet" if claim.verdict == OPEN else claim.verdict
        lines.append(f"{claim.number}. **{claim.sentence[:1].upper()}{claim.sentence[1:]}: {verdict}.** {sentence}")
    return "\n".join(lines)
