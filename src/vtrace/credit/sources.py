"""Where credit comes from: every source is a function of a part of a batch, and scores the same tokens.

A source scores the response tokens before the answer, so that sources can be compared: whatever is credited, the same
tokens are eligible. Each runs the decoder as often as its cost says; none needs the padded passes of the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..attribution.multihop import log_scores
from ..attribution.pipeline import receiver_columns
from ..attribution.shares import relative_to_inputs
from ..attribution.siblings import SiblingMatrices
from ..attribution.triangle import Triangle
from ..errors import ModelError
from ..lvlm.layer import Layer
from ..lvlm.model import Lvlm
from ..methods.flowtracer import add_attention, capacity_of, layer_range, reach_of
from ..methods.ordered import flows_into_predictors, received_flow
from ..system.threads import side_by_side
from ..system.wide_numbers import wide_device
from .rollouts import Part, Rollout


class ResponseScores(NamedTuple):
    """Scores of the tokens that can be credited, and what the source knows about the picture."""

    values: np.ndarray  # one for each position of `Rollout.scored`
    image_share: float | None = None  # of image and question scores


SourceFunction = Callable[[Lvlm, Part, int], list[ResponseScores]]  # the last argument is a seed


@dataclass(frozen=True)
class Source:
    """A source of credit and what a user should know before choosing it."""

    score: SourceFunction
    about: str
    cost: str  # in forward passes of the batch
    needs_picture: bool = False


def _vtrace(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    matrices = [_siblings(lvlm, part.rollouts[rows]) for rows in part.groups]
    _read_layers(lvlm, part, lambda group, layers: matrices[group].add(layers))
    found = [Triangle.of(matrix) for group in matrices for matrix in group.finish()]
    return side_by_side(lambda row: _all_paths(lvlm, part.rollouts[row], found[row]), range(len(found)), lvlm.device)


def _siblings(lvlm: Lvlm, rollouts: Sequence[Rollout]) -> SiblingMatrices:
    first, device = rollouts[0], wide_device(lvlm.device)
    return SiblingMatrices([len(r) for r in rollouts], first.prompt_length, _centred(lvlm, first), device)


def _all_paths(lvlm: Lvlm, rollout: Rollout, pairwise: Triangle) -> ResponseScores:
    receivers = receiver_columns(len(rollout), [rollout.target]).to(pairwise.device)
    logs = log_scores(pairwise, receivers)[:, 0].cpu().numpy()
    return _of_positions(lvlm, rollout, relative_to_inputs(logs, list(rollout.scored)).values)


def _ordered(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    layers: list[list[Layer]] = []  # one layer of all rollouts after the other
    lvlm.seam.read_layers(part.arguments, layers.append, part.lengths)

    def flow(row: int) -> ResponseScores:
        rollout = part.rollouts[row]
        start, own = rollout.prompt_length, [layer[row] for layer in layers]
        try:
            flows = flows_into_predictors(own, start, len(rollout), _centred(lvlm, rollout))
        except ModelError:  # numbers that are not finite, in this rollout only
            return ResponseScores(np.full(len(rollout.scored), np.nan))
        scores = received_flow(flows, start, rollout.target).scores
        return _of_positions(lvlm, rollout, scores.cpu().numpy())

    return side_by_side(flow, range(len(part.rollouts)), lvlm.device)


def _attention_flow(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    if lvlm.seam.hybrid:
        raise ModelError("this source needs softmax attention in all layers, and this model is a hybrid; use vtrace")
    totals = [torch.zeros(size, size, device=wide_device(lvlm.device)) for size in part.padded_lengths]
    chosen = layer_range(len(lvlm.seam.layers))

    def add(group: int, layers: Sequence[Layer]) -> None:
        first = part.groups[group].start
        for row, layer in enumerate(layers, first):
            if layer.index in chosen:  # receivers in the shared prompt are read from the first response only
                shared = 0 if row == first else part.rollouts[row].prompt_length
                add_attention(totals[row], layer, slice(shared, len(part.rollouts[row])))

    _read_layers(lvlm, part, add)
    for rows in part.groups:
        shared = slice(0, part.rollouts[rows.start].prompt_length)
        for total in totals[rows]:
            total[shared, shared] = totals[rows.start][shared, shared]
    found = []
    for rollout, total in zip(part.rollouts, totals, strict=True):
        answer = torch.tensor(rollout.target.receivers(), device=wide_device(lvlm.device))
        capacity = capacity_of(total[: len(rollout), : len(rollout)], len(chosen))
        found.append(_of_positions(lvlm, rollout, reach_of(capacity, answer).cpu().numpy()))
    return found


def _visual_dependence(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    seam = lvlm.seam
    shown = _log_probabilities(lvlm, part)
    hidden = seam.pad_rows(part.arguments, [_image(lvlm, rollout) for rollout in part.rollouts])
    unseen = _log_probabilities(lvlm, part._replace(arguments=hidden))
    return [ResponseScores((a - b).cpu().numpy()) for a, b in zip(shown, unseen, strict=True)]


def _entropy(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    return [ResponseScores(entropy.cpu().numpy()) for entropy in lvlm.seam.batch_entropies(*_scored(part))]


def _random(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    """The same numbers for the same tokens and seed, wherever in a batch they are."""
    draws = [np.random.default_rng([seed, *rollout.ids]) for rollout in part.rollouts]
    return [ResponseScores(d.random(len(r.scored))) for d, r in zip(draws, part.rollouts, strict=True)]


def _uniform(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    return [ResponseScores(np.ones(len(rollout.scored))) for rollout in part.rollouts]


SOURCES: dict[str, Source] = {
    "vtrace": Source(_vtrace, "the paper's all-paths attribution of the answer", "1 instrumented"),
    "vtrace-ordered": Source(_ordered, "paths in the order of layers; our own variant", "1 instrumented"),
    "attention flow": Source(_attention_flow, "reach of the answer over mean attention (FlowTracer)", "1 instrumented"),
    "visual dependence": Source(
        _visual_dependence, "log p of the token with the picture minus without it", "2", needs_picture=True
    ),
    "entropy": Source(_entropy, "uncertainty of the model when it sampled the token", "1"),
    "random": Source(_random, "uniform noise: a control for which tokens", "0"),
    "uniform": Source(_uniform, "all scored tokens alike: a control for the size of the step", "0"),
}


def _read_layers(lvlm: Lvlm, part: Part, consume: Callable[[int, Sequence[Layer]], None]) -> None:
    """One instrumented pass. `consume` is given the layers of one group of rollouts at a time, padded alike."""

    def hand_over(layers: list[Layer]) -> None:
        side_by_side(lambda group: consume(group, layers[part.groups[group]]), range(len(part.groups)), lvlm.device)

    lvlm.seam.read_layers(part.arguments, hand_over, part.padded_lengths)


def _log_probabilities(lvlm: Lvlm, part: Part) -> Iterator[Tensor]:
    return lvlm.seam.batch_log_probabilities(*_scored(part))


def _scored(part: Part) -> tuple[dict, list[tuple[int, ...]], list[range]]:
    return part.arguments, [rollout.ids for rollout in part.rollouts], [rollout.scored for rollout in part.rollouts]


def _centred(lvlm: Lvlm, rollout: Rollout) -> list[Tensor]:
    """Positions that are centred within their modality: image and question."""
    kinds = (_image(lvlm, rollout), list(rollout.question))
    return [torch.tensor(positions, dtype=torch.long, device=lvlm.device) for positions in kinds]


def _image(lvlm: Lvlm, rollout: Rollout) -> list[int]:
    return [p for p, token in enumerate(rollout.prompt) if token == lvlm.image_token_id]


def _of_positions(lvlm: Lvlm, rollout: Rollout, scores: np.ndarray) -> ResponseScores:
    """Scores of all positions, cut to those that can be credited."""
    image = float(np.abs(scores[_image(lvlm, rollout)]).sum())
    total = image + float(np.abs(scores[list(rollout.question)]).sum())
    values = scores[rollout.scored.start : rollout.scored.stop]
    return ResponseScores(values, image / total if total > 0 and np.isfinite(total) else None)
