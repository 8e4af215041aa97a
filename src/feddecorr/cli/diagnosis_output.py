"""How the answer of `feddecorr diagnose` is told: a table, words and a page, or one JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddecorr.cli.console import number, print_json, print_table, print_text, say

if TYPE_CHECKING:
    from feddecorr.collapse.diagnosis import Diagnosis
    from feddecorr.report.page import Section
    from feddecorr.runs.diagnosis import Examination

COLUMNS = {
    "accuracy": "accuracy",
    "effective rank": "effective_rank",
    "possible": "maximum_rank",
    "significant": "significant_singular_values",
    "for 99 %": "dimensions_for_99_percent",
    "participation ratio": "participation_ratio",
    "NC1": "nc1_variability",
    "CKA": "linear_cka",
}


def tell(found: Sequence[Diagnosis], rounds: Sequence[Examination], picture: Path, *, json: bool) -> None:
    """Tell about all models, and about whole rounds of runs where that was asked for."""
    from feddecorr.collapse.diagnosis import find_reference  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.report.diagnosis_page import write_diagnosis  # noqa: PLC0415

    write_diagnosis(found, picture, list(_sections(rounds)))
    answers = [each.answer(find_reference(each, found)) for each in found]
    if json:
        documents = [{**each.to_dict(), "answer": said} for each, said in zip(found, answers, strict=True)]
        further = {"picture": str(picture.resolve()), "others": documents[1:], **_documents(rounds)}
        print_json({**documents[0], **further})
        return
    _print_models(found)
    print_text("")
    for said in answers:
        print_text("\n".join(said))
    for each in rounds:
        _print_round(each)
    say(f"picture: {picture.resolve()}")


def _print_models(found: Sequence[Diagnosis]) -> None:
    from feddecorr.collapse.diagnosis import rows  # noqa: PLC0415 - PyTorch is loaded when it is needed

    if len(found) == 1:
        print_table(["measure", "value", "what it is"], rows(found[0]), title=found[0].name)
        return
    told = {name for name in COLUMNS.values() if any(getattr(each, name) is not None for each in found)}
    known = {heading: name for heading, name in COLUMNS.items() if name in told}
    lines = [[each.name, *(number(getattr(each, name), 3) for name in known.values())] for each in found]
    print_table(["model", *known], lines)


def _print_round(found: Examination) -> None:
    if found.averaging is not None:
        print_text("")
        print_table(found.averaging.HEADINGS, found.averaging.rows())
        if found.averaging.layers:
            print_text("")
            print_table(found.averaging.LAYER_HEADINGS, found.averaging.layer_rows())
        print_text("")
        print_text("\n".join(found.averaging.answer()))
    if found.blame is not None:
        print_text("")
        print_table(found.blame.HEADINGS, found.blame.rows())
        print_text("")
        print_text("\n".join(found.blame.answer()))


def _documents(rounds: Sequence[Examination]) -> dict[str, Any]:
    """Return one document for each run, where there is any."""
    averaged = [each.averaging.to_dict() for each in rounds if each.averaging is not None]
    blamed = [each.blame.to_dict() for each in rounds if each.blame is not None]
    return {name: found for name, found in {"averaging": averaged, "blame": blamed}.items() if found}


def _sections(rounds: Sequence[Examination]) -> Iterator[Section]:
    from feddecorr.report.diagnosis_page import averaging_sections, blame_section  # noqa: PLC0415 - plotly takes long

    for each in rounds:
        if each.averaging is not None:
            yield from averaging_sections(each.averaging)
        if each.blame is not None:
            yield blame_section(each.blame)
