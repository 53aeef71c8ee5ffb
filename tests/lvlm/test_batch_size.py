"""How many sequences are decoded at once, and that results do not depend on it."""

from __future__ import annotations

import pytest
import torch

from vtrace.lvlm.batch_size import CPU_TOKENS, sequence_bytes, sequences_at_once, workload_of
from vtrace.methods.session import TraceSession

GB = 1 << 30


@pytest.fixture(scope="module")
def work(pinhole):
    return workload_of(pinhole.seam.decoder.config, torch.bfloat16)


def test_the_sizes_are_those_of_the_configuration(work):
    assert work == (128, 384, 8, 4, 128, 64, 499, 2)


def test_twice_the_memory_holds_twice_the_sequences(work):
    each = sequence_bytes(work, 3000)
    one, two = (sequences_at_once(3000, each, free) for free in (8 * GB, 16 * GB))
    assert one > 100
    assert abs(two - 2 * one) <= 1


def test_sequences_need_memory_for_their_length_logits_and_graph(work):
    plain = sequence_bytes(work, 1000)
    assert sequence_bytes(work, 2000) == 2 * plain
    assert sequence_bytes(work, 1000, predicted=10) == plain + 10 * 499 * 16
    assert sequence_bytes(work, 1000, graph=True) > 8 * plain


def test_at_least_one_sequence_is_decoded_however_little_fits(work):
    assert sequences_at_once(32_000, sequence_bytes(work, 32_000), free=1000) == 1
    assert sequences_at_once(32_000, 1, free=None) == 1


def test_a_cpu_decodes_what_its_cache_holds_however_much_memory_there_is(pinhole, trace):
    assert pinhole.seam.batch_size(len(trace)) == CPU_TOKENS // len(trace)


def test_a_decoder_that_runs_out_of_memory_gets_smaller_batches(pinhole, trace, monkeypatch):
    """A stand-in for a full device: the decoder refuses more than two sequences."""
    states = [(p,) for p in trace.inputs[:7]]
    expected = TraceSession.open(pinhole, trace).perturbation(0.1).log_probabilities(states)
    sizes = []

    def refuse(module, args, kwargs):
        sizes.append(len(kwargs["inputs_embeds"]))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    perturbation = TraceSession.open(pinhole, trace).perturbation(0.1)
    monkeypatch.setattr("vtrace.lvlm.batch_size.CPU_TOKENS", 7 * len(trace))
    handle = pinhole.seam.decoder.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        found = perturbation.log_probabilities(states)
    finally:
        handle.remove()
    assert max(sizes) > 2
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
