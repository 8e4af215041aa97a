"""The paper's claims, each with the rule that judges it; docs/claims.md says the rules in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from feddecorr.paper.claims import gains, ranks
from feddecorr.paper.claims.claim import Claim, Trial, correct_trials, judge_trials
from feddecorr.paper.claims.evidence import Plan, Run, runs_of
from feddecorr.paper.claims.others import computation, proposition, theorem
from feddecorr.results.summary import Summary

Judge = Callable[[Sequence[Run]], Iterable[Trial]]

MEASURED: dict[str, tuple[str, str, Judge]] = {
    "1": (
        "smaller alpha: fewer significant singular values and a lower effective rank of the global model",
        "collapse",
        ranks.rank_of_global_models,
    ),
    "2": ("the same for local models", "collapse-local", ranks.rank_of_local_models),
    "3": ("FedDecorr raises the tail of the spectrum, local and global", "mitigation", ranks.tail_of_spectra),
    "4": (
        "FedDecorr improves FedAvg at alpha 0.05 and 0.1, by more than at 0.5",
        "cifar10",
        gains.heterogeneity,
    ),
    "5": ("the same on FedProx, FedAvgM and MOON", "cifar10", gains.other_methods),
    "6": ("at alpha = inf FedDecorr is on par", "cifar10", gains.homogeneous),
    "7": ("more clients, more gain", "clients", gains.number_of_clients),
    "8": ("insensitive to beta around 0.1", "beta", gains.strength),
    "9": ("FedDecorr improves for each number of local epochs", "epochs", gains.local_epochs),
    "10": ("DeCov and Structured-DeCov do not help, FedDecorr does", "decorrelation", gains.other_decorrelation),
    "11": ("wider networks gain more", "architectures", gains.width),
    "12": ("FedDecorr improves also with C classes per client", "classes", gains.classes_per_client),
    "13": ("fewer rounds to a given accuracy", "rounds", gains.speed),
    "15": ("the loss is stable in local training", "stability", ranks.stability),
    "F1": ("averaging lowers the rank", "averaging", ranks.averaging),
}
"""Claims that runs answer: the sentence, the study whose runs do, and what judges them."""

COMPUTATION = "negligible computation, less than FedProx and MOON"
THEOREM = "Theorem 1: singular values grow as predicted"
PROPOSITION = "Proposition 1: the variance of singular values is the norm of the correlation matrix"


def judge(
    summaries: Sequence[Summary], costs: Sequence[Mapping[str, Any]] = (), plan: Plan | None = None
) -> list[Claim]:
    """Return all claims with their verdicts, from runs, recorded costs, and the theory as it is computed now.

    By a plan, a question is judged when its seeds are done. Findings of our own come after the paper's claims.
    """
    runs = runs_of(summaries, plan)
    trials = correct_trials({number: find(runs) for number, (_, _, find) in MEASURED.items()})
    claims = [
        judge_trials(number, sentence, trials[number], study) for number, (sentence, study, _) in MEASURED.items()
    ]
    others = [computation("14", COMPUTATION, costs), theorem("16", THEOREM), proposition("17", PROPOSITION)]
    return sorted([*claims, *others], key=lambda claim: (not claim.number.isdigit(), len(claim.number), claim.number))
