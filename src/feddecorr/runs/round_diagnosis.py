"""The models of a round of a run, examined: the global one, the clients' own, their average, and who is to blame."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from feddecorr.collapse.averaging import AveragedRound, Blame
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.core.files import temporary_folder
from feddecorr.core.trust import STRANGER, Trust
from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluator_inputs import REMARKS, DiagnosisInputs, Wanted
from feddecorr.runs.recompute import Say, choose_clients, is_homogeneous, state_of
from feddecorr.runs.whole_round import WholeRound
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import sample_clients


@dataclass(frozen=True)
class Examination:
    """What was found out: the global model first, then clients in their order; the rest where it was wanted."""

    diagnoses: list[Diagnosis]
    averaging: AveragedRound | None = None
    blame: Blame | None = None


def examine(directory: RunDirectory, wanted: Wanted, name: str, say: Say, *, trust: Trust = STRANGER) -> Examination:
    """Look at the global model and, if wanted, at the local models that were made from the one before it.

    For the average and for blame, all clients are trained again whose updates were taken.
    """
    number = _choose_round(directory, wanted)
    experiment, options = directory.settings(trust)
    simulation = Simulation(experiment, device=options.device, evaluation=options.evaluation)
    look, title = DiagnosisInputs(simulation, wanted), f"{name}, round {number}{REMARKS[wanted.statistics]}"
    shown = trained = choose_clients(simulation.federation, number, wanted.clients) if wanted.local else []
    if wanted.whole:
        missing = directory.round(number).missing
        for client in set(wanted.clients or ()) & missing.keys():
            raise UserError(f"client {client} has no part in the average of round {number}: {missing[client]}")
        trained = [client for client in sample_clients(simulation.federation, number) if client not in missing]
        shown = [client for client in shown if client not in missing]
        if not trained:
            raise UserError(f"nobody trained in round {number}: it has no local models to look at")
    with ExitStack() as stack:
        state = stack.enter_context(state_of(directory, simulation, options, number, say))
        model = look.build(state.after())
        first = look.diagnose(model, f"{title}, global")
        first = replace(first, homogeneous=is_homogeneous(directory))
        sent = look.diagnose(look.build(state.sent()), "sent", weights=False) if wanted.blames else None
        together = WholeRound(simulation, look, stack.enter_context(temporary_folder()), say)
        local: dict[int, Diagnosis] = {}
        for place, update in enumerate(state.train(trained), start=1):
            theirs = look.build({**update.weights, **update.buffers})
            found = look.diagnose(theirs, f"{title}, client {update.client}", compared_with=(model, first))
            say(f"client {update.client} is trained and looked at ({place} of {len(trained)})")
            if wanted.whole:
                together.take(update, theirs, found, layers=wanted.layers)
            if update.client in shown:
                local[update.client] = replace(found, client=update.client).lean()
        return Examination(
            [first, *(found for _, found in sorted(local.items()))],
            together.averaging(title, first, shown or trained[:1]) if wanted.averaging else None,
            None if sent is None else together.blame(title, sent),
        )


def _choose_round(directory: RunDirectory, wanted: Wanted) -> int:
    done = directory.finished_rounds()
    number = done if wanted.round is None else wanted.round
    if done == 0:
        raise UserError(f"{directory.path} has no finished round yet: 'feddecorr resume {directory.path}' goes on")
    if not 1 <= number <= done:
        raise UserError(f"{directory.path} has rounds 1 to {done}, not {number}")
    return number
