"""Where credit comes from: every source is a function of a part of a batch, and scores the same tokens.

A source scores the response tokens before the answer, so that sources can be compared: whatever is credited, the same
tokens are eligible. Each runs the decoder as often as its cost says; none needs the padded passes of the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..attribution.multihop import log_scores
from ..attribution.pairwise import PairwiseMatrix
from ..attribution.pipeline import receiver_columns
from ..attribution.shares import relative_to_inputs
from ..attribution.triangle import Triangle
from ..errors import ModelError
from ..lvlm.layer import Layer
from ..lvlm.model import Lvlm
from ..methods.flowtracer import add_attention, capacity_of, layer_range, reach_of
from ..methods.ordered import flows_into_predictors, received_flow
from ..system.threads import side_by_side
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
    groups = [_centred(lvlm, rollout) for rollout in part.rollouts]
    matrices = [PairwiseMatrix(len(r), g, lvlm.device) for r, g in zip(part.rollouts, groups, strict=True)]
    _read_layers(lvlm, part, lambda row, layer, receivers: matrices[row].add(layer, receivers))
    for row, leader in enumerate(part.leaders):
        if row != leader:
            matrices[row].begin_as(matrices[leader], part.rollouts[row].prompt_length)
    return [_all_paths(lvlm, rollout, matrix.finish()) for rollout, matrix in zip(part.rollouts, matrices, strict=True)]


def _all_paths(lvlm: Lvlm, rollout: Rollout, pairwise: Triangle) -> ResponseScores:
    receivers = receiver_columns(len(rollout), [rollout.target]).to(pairwise.device)
    logs = log_scores(pairwise, receivers)[:, 0].cpu().numpy()
    return _of_positions(lvlm, rollout, relative_to_inputs(logs, list(rollout.scored)).values)


def _ordered(lvlm: Lvlm, part: Part, seed: int) -> list[ResponseScores]:
    layers: list[list[Layer]] = []  # one layer of all rollouts after the other
    with torch.no_grad(), lvlm.seam.capture_batch(layers.append, part.lengths):
        lvlm.seam.decoder(**part.arguments)

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
    totals = [torch.zeros(len(rollout), len(rollout), device=lvlm.device) for rollout in part.rollouts]
    chosen = layer_range(len(lvlm.seam.decoder.layers))

    def add(row: int, layer: Layer, receivers: slice) -> None:
        if layer.index in chosen:
            add_attention(totals[row], layer, receivers)

    _read_layers(lvlm, part, add)
    found = []
    for rollout, total, leader in zip(part.rollouts, totals, part.leaders, strict=True):
        shared = slice(0, rollout.prompt_length)
        total[shared, shared] = totals[leader][shared, shared]  # the leader comes first
        answer = torch.tensor(rollout.target.receivers(), device=lvlm.device)
        reach = reach_of(capacity_of(total, len(chosen)), answer)
        found.append(_of_positions(lvlm, rollout, reach.cpu().numpy()))
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


def _read_layers(lvlm: Lvlm, part: Part, consume: Callable[[int, Layer, slice], None]) -> None:
    """One instrumented pass. What receivers in a shared prompt get is read from the first of its rollouts only."""

    def hand_over(layers: list[Layer]) -> None:
        side_by_side(lambda row: one(row, layers[row]), range(len(layers)), lvlm.device)

    def one(row: int, layer: Layer) -> None:
        start = 0 if part.leaders[row] == row else part.rollouts[row].prompt_length
        consume(row, layer, slice(start, len(part.rollouts[row])))

    with torch.no_grad(), lvlm.seam.capture_batch(hand_over, part.lengths):
        lvlm.seam.decoder(**part.arguments)


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
