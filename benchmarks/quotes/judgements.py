"""A sentence of judgement for every claim, each written for a verdict: another verdict wants another sentence."""

from __future__ import annotations

from collections.abc import Sequence

from feddecorr.paper.claims.claim import FAILS, HOLDS, OPEN, PARTLY, Claim

JUDGEMENTS: dict[str, tuple[str, str]] = {
    "1": (
        PARTLY,
        "By the paper's own measure clearly: at every alpha fewer singular values are above the threshold than on "
        "homogeneous data, because heterogeneity shrinks the whole spectrum. The effective rank, which does not depend "
        "on the scale, is lower up to alpha 0.25; at 0.5, and between 0.5 and 0.01, five seeds cannot tell. With an "
        "annealed learning rate (`many`) it is even *higher* at alpha 0.1 to 0.5 than on homogeneous data.",
    ),
    "2": (
        PARTLY,
        "The clients' models collapse by both measures, and further than the global one, to five dimensions of 128. "
        "Only whether their effective rank differs between alpha 0.01 and 0.5 is open.",
    ),
    "10": (
        PARTLY,
        "With weights from inside of their grid, DeCov and Structured-DeCov do not help; in the last round of an "
        "annealed run FedDecorr helps no more than they do. Its runs were done before that weight was chosen so: the "
        "first choice, at the edge of another grid, had been the same one.",
    ),
    "13": (
        PARTLY,
        "A third fewer rounds at alpha 0.05. At 0.1 five seeds of the nearest setting cannot tell.",
    ),
    "F1": (
        FAILS,
        "The opposite: the average of the clients' models has a higher rank than they have, at every alpha.",
    ),
    "14": (
        HOLDS,
        "The term costs nothing that could be measured in a step, and takes a quarter of the time of FedProx's own; "
        "MOON's two further passes cost a third of a round. In the paper FedProx and MOON nearly double the time.",
    ),
    "16": (
        PARTLY,
        "It holds with the matrix G of the proof. The G that the paper prints lacks a term, and misses by up to one "
        "and a half of all growth.",
    ),
    "17": (HOLDS, "To the last digits of float64, as it must."),
}
"""By the number of the claim: the verdict that it is written for, and the sentence. What is open needs none."""


def judge_in_words(claims: Sequence[Claim]) -> str:
    """Return a line for every claim; refuse a sentence whose verdict is no longer the one that was found."""
    lines = []
    for claim in claims:
        written_for, sentence = JUDGEMENTS.get(claim.number, (OPEN, f"Seeds done: {claim.seeds}."))
        if claim.verdict != written_for:
            raise ValueError(
                f"claim {claim.number} is '{claim.verdict}' now, and its sentence was written for '{written_for}': "
                "write another one in benchmarks/quotes/judgements.py"
            )
        verdict = "open" if claim.verdict == OPEN else claim.verdict
        lines.append(f"- {claim.number}. **{claim.sentence[:1].upper()}{claim.sentence[1:]}: {verdict}.** {sentence}")
    return "\n".join(lines)
