"""Whether hiding the evidence known by construction changes the answer, and whether `verify` finds as small a set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..benchmarks.benchmark import Benchmark
from ..errors import InputError
from ..faithfulness.ask_again import AskAgain, same_answer
from ..faithfulness.evidence import evidence_positions
from ..faithfulness.hidden_sets import random_orders
from ..faithfulness.plan import item_seed
from ..faithfulness.verification_plan import VerificationPlan
from ..faithfulness.verify import run_plan
from ..methods.registry import run_method
from ..methods.session import TraceSession
from ..system.text_colours import FAINT
from ..tracing.targets import find_target
from ..types import Progress
from .catalogue import STUDY_SUBJECTS
from .figures import PAGE, TICK, LineLabel, label_lines, new_figure, set_labels
from .method_colours import colours_of
from .store import StudyStore
from .study import Findings, Study, StudyReport, StudySetup

EXPLANATIONS = {  # what is verified: methods and targets
    f"{method}, {target}": (method, target)
    for method in ("vtrace-ordered", "vtrace")
    for target in ("response", "answer")
}
DRAWN = 8  # random sets of each example
SLACK = 2  # a set that is found should be at most so many times as large as the evidence
TWO_ANSWERS = ("yes", "no")


@dataclass(frozen=True)
class VerifiedExample:
    """What became of one answer."""

    evidence: int  # patches
    changed: bool  # by hiding them
    random_changed: int  # by hiding as many random ones, of `DRAWN` draws
    found: dict[str, int | None]  # by explanation: patches of the smallest changing set; None if none was found
    random_found: dict[str, int]  # how many random sets of that size changed the answer


@dataclass(frozen=True)
class VerifyStudy(Study[VerifiedExample]):
    """Hides true evidence, random patches, and what methods name."""

    name: str = "verify"
    about: str = STUDY_SUBJECTS["verify"]
    limit: int = 100

    def choose(self, setup: StudySetup, store: StudyStore, limit: int, progress: Progress) -> Sequence[int]:
        """The first examples with known evidence whose answer is neither yes nor no."""
        found = []
        for number in _answerable(setup.benchmark):
            found.append(number)
            if len(found) == limit:
                return found
        if not found:
            raise InputError(f"{setup.benchmark.name} has no questions with known evidence; use shapes-dev or shapes")
        return found

    def measure(self, setup: StudySetup, number: int, before: VerifiedExample | None) -> VerifiedExample:
        frozen, seed = setup.freeze(number), item_seed(setup.seed, number)
        session = TraceSession.open(setup.lvlm, frozen)
        example = before or _hide_evidence(session, setup.blur, seed)
        found, random_found = dict(example.found), dict(example.random_found)
        for label, (method, target) in EXPLANATIONS.items():
            if label not in found:
                attribution = run_method(method, session, find_target(frozen, target))
                plan = VerificationPlan.of(attribution, setting="image", blur=setup.blur, seed=seed)
                verification = run_plan(setup.lvlm, attribution, plan)
                found[label] = verification.necessary.inputs
                random_found[label] = verification.random.changed
        return replace(example, found=found, random_found=random_found)

    def is_complete(self, found: VerifiedExample) -> bool:
        return found.found.keys() >= EXPLANATIONS.keys()

    def decode(self, value: Any) -> VerifiedExample:
        return VerifiedExample(**value)

    def report(self, findings: Findings[VerifiedExample]) -> StudyReport:
        examples = list(findings.found.values())
        if not examples:
            raise InputError("nothing could be measured: " + "; ".join(set(findings.left_out.values())))
        setup = findings.setup
        lines = [f"| {what} | {100 * share:.1f} % |" for what, share in _shares(examples)]
        facts = f"{setup.lvlm.label} on {setup.benchmark.name}, {len(examples)} examples, seed {setup.seed}."
        sizes = ", ".join(f"{n} with {size}" for size, n in _sizes(examples).items())
        text = "| measured | share |\n| --- | --- |\n" + "\n".join(lines)
        return StudyReport(f"{text}\n\n{facts} Patches of evidence: {sizes}.\n", _figure(examples))


def _hide_evidence(session: TraceSession, blur: float, seed: int) -> VerifiedExample:
    """Ask again with the true evidence hidden, and with as many random patches hidden."""
    image, evidence = session.trace.positions("image"), evidence_positions(session.trace).image
    if not evidence:
        raise InputError("no patch holds the evidence")
    draws = [[image[k] for k in order[: len(evidence)]] for order in random_orders(len(image), DRAWN, seed)]
    first, *replies = AskAgain(session, blur).ask(map(frozenset, [[], evidence, *draws]))
    changed = [not same_answer(reply, first) for reply in replies]
    return VerifiedExample(len(evidence), changed[0], sum(changed[1:]), {}, {})


def _answerable(benchmark: Benchmark) -> Iterator[int]:
    for number in range(benchmark.size):
        example = benchmark.example(number)
        if example.evidence_boxes and (example.answer or "").lower() not in TWO_ANSWERS:
            yield number


def _shares(examples: Sequence[VerifiedExample]) -> Iterator[tuple[str, float]]:
    """What is measured, and the share of examples (or of draws) in which it is so."""
    yield "hiding the true evidence changes the answer", float(np.mean([e.changed for e in examples]))
    random = float(np.mean([e.random_changed / DRAWN for e in examples]))
    yield f"hiding as many random patches does ({DRAWN} draws each)", random
    for label in EXPLANATIONS:
        ratios = _ratios(examples, label)
        yield f"{label}: verify finds a set that changes the answer", float(np.mean(np.isfinite(ratios)))
        yield f"{label}: at most {SLACK} times as large as the evidence", float(np.mean(ratios <= SLACK))
        yield f"{label}: no larger than the evidence", float(np.mean(ratios <= 1))
        draws = [e.random_found[label] / DRAWN for e in examples if e.found[label] is not None]
        yield f"{label}: as many random patches change the answer", float(np.mean(draws))


def _ratios(examples: Sequence[VerifiedExample], label: str) -> np.ndarray:
    """Size of the set that was found, in multiples of the evidence; infinite if none was."""
    return np.array([(size if (size := e.found[label]) is not None else np.inf) / e.evidence for e in examples])


def _sizes(examples: Sequence[VerifiedExample]) -> dict[int, int]:
    values, counts = np.unique([e.evidence for e in examples], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _figure(examples: Sequence[VerifiedExample]) -> Figure:
    """How many sets are at most so many times as large as the evidence."""
    figure, axes = new_figure(1, 1, 3.2, 0.75 * PAGE)
    (ax,) = axes.flat
    ends = []
    for label, colour in colours_of(EXPLANATIONS).items():
        ratios = np.sort(_ratios(examples, label))
        seen = ratios[np.isfinite(ratios)]
        share = np.arange(1, len(seen) + 1) / len(ratios)
        ax.step([0, *seen], [0, *share], where="post", color=colour)
        ends.append(LineLabel(float(share[-1]) if len(share) else 0.0, label, colour))
    ax.axvline(SLACK, color=FAINT, linewidth=0.8, linestyle="--")
    ax.text(SLACK + 0.1, 0.02, "twice the evidence", fontsize=TICK, color=FAINT)
    ax.set_ylim(0, 1.02)
    ax.set_xlim(0, 6)
    set_labels(ax, "Patches hidden until the answer changes", "multiples of the true evidence", "share of examples")
    label_lines(ax, ends)
    return figure


VERIFY_STUDY = VerifyStudy()
