"""The paper's pseudocode (Algorithm 1), transcribed line by line. Slow, literal, obviously correct."""

from __future__ import annotations

import numpy as np
import torch

EPS = 1e-12


def pairwise(V, a, x_attn, x_pre, Wo, img_pos, txt_pos, centre=True, gates=None):
    """Step 1. V[l][i,h], a[l][h,j,i], x_attn[l][j], x_pre[l][j], Wo[l][h] (d_h by d): W[i,j].

    gates[l][j,h], where a layer has them, multiply what receiver j reads of each head before it is projected.
    """
    L, T = len(V), len(x_pre[0])
    W = torch.zeros(T, T, dtype=V[0].dtype)
    for l in range(L):  # noqa: E741
        H = a[l].shape[0]
        if gates is not None and gates[l] is not None:
            W += (
                gated_edges(V[l], a[l], x_attn[l] - x_pre[l], Wo[l], (img_pos, txt_pos) if centre else (), gates[l]) / L
            )
            continue
        F = torch.stack([V[l][:, h] @ Wo[l][h] for h in range(H)], dim=1)  # i,h,d
        d = x_attn[l] - x_pre[l]
        if centre:
            for modality in (img_pos, txt_pos):
                mean = sum(F[k] for k in modality) / len(modality)
                for i in modality:
                    F[i] = F[i] - mean
        for j in range(T):
            for i in range(j):
                e = sum(a[l][h, j, i] * torch.dot(F[i, h], d[j]) for h in range(H))
                W[i, j] += torch.relu(e) / (torch.linalg.norm(d[j]) + EPS) / L
    return W


def gated_edges(V, a, d, Wo, modalities, gate):
    """One layer whose writes depend on the receiver: (v_i ⊙ gate_j) O_h."""
    V, T = V.clone(), len(d)
    for modality in modalities:
        V[modality] -= sum(V[k] for k in modality) / len(modality)
    W = torch.zeros(T, T, dtype=V.dtype)
    for j in range(T):
        F = torch.stack([(V[:, h] * gate[j, h]) @ Wo[h] for h in range(a.shape[0])], dim=1)  # i,h,d
        for i in range(j):
            e = sum(a[h, j, i] * torch.dot(F[i, h], d[j]) for h in range(a.shape[0]))
            W[i, j] = torch.relu(e) / (torch.linalg.norm(d[j]) + EPS)
    return W


def scores(W, recv_pos, gamma):
    """Step 2, in float64 with an explicit inverse: R, u."""
    W = W.double()
    T = len(W)
    W_hat = W / (W.max() + EPS)
    identity = torch.eye(T, dtype=torch.float64)
    R = torch.linalg.inv(identity - gamma * W_hat) - identity
    inflow = torch.stack([sum(R[i, r] for i in range(T)) for r in range(T)])
    outflow = torch.stack([sum(R[r, j] for j in recv_pos) for r in range(T)])
    u = (1 + inflow) * outflow
    u[min(recv_pos) :] = 0
    return R, u


def image_scale(u, img_pos, txt_pos, D_img, D_txt, D_both):
    """Step 3: lambda."""
    phi_img = (D_img + D_both - D_txt) / 2
    phi_txt = (D_txt + D_both - D_img) / 2
    s = phi_img / (phi_img + phi_txt)
    return (s / (1 - s)) * (sum(u[i] for i in txt_pos) / sum(u[i] for i in img_pos))


def extended_precision_scores(pairwise: np.ndarray, receivers: list[int], gamma: float = 1.0) -> np.ndarray:
    """Plain substitution in 80-bit floats, whose range ends at 1e4932: an oracle without any scaling."""
    hat = pairwise.astype(np.longdouble)
    hat = np.longdouble(gamma) * hat / (hat.max() + np.longdouble(EPS))
    length = len(hat)
    start = np.zeros(length, np.longdouble)
    start[receivers] = 1
    out, inflow = np.zeros(length, np.longdouble), np.zeros(length, np.longdouble)
    for r in range(length - 2, -1, -1):
        out[r] = hat[r, r + 1 :] @ (out[r + 1 :] + start[r + 1 :])
    for r in range(1, length):
        inflow[r] = (1 + inflow[:r]) @ hat[:r, r]
    u = (1 + inflow) * out
    u[min(receivers) :] = 0
    return u
