"""Other attribution methods as plain loops over cached states. Slow, literal, obviously correct; float64 throughout.

States are those of `cached_states`: V[l][i,h], a[l][h,j,i], x_attn[l][j], x_pre[l][j], Wo[l][h] (d_h by d), where j
receives from i. Scores are vectors over all T positions.
"""

from __future__ import annotations

import math

import torch

EPS = 1e-12


def zeros(*shape):
    return torch.zeros(*shape, dtype=torch.float64)


def identity(T):
    return torch.eye(T, dtype=torch.float64)


def transformed(V, Wo):
    """F[i,h] = V[i,h] Wo[h] of one layer: T,H,d."""
    return torch.stack([V[:, h].double() @ Wo[h].double() for h in range(V.shape[1])], dim=1)


def proximity(part, whole):
    """How much closer to zero, in L1, the whole gets when the part is taken out; never negative."""
    return max(0.0, float(whole.abs().sum() - (whole - part).abs().sum()))


def row_normalised(matrix):
    """Rows that sum to one; rows of zeros stay."""
    out = zeros(*matrix.shape)
    for j in range(len(matrix)):
        total = matrix[j].sum()
        if total > 0:
            out[j] = matrix[j] / total
    return out


def half_residual(attention):
    """Half of the attention map, half of the identity."""
    return row_normalised(0.5 * attention + 0.5 * identity(len(attention)))


# Attention rollout


def rollout(a, receivers):
    """Rows of the product over all layers, top layer leftmost; mean over receivers."""
    product = identity(a[0].shape[-1])
    for maps in a:
        product = half_residual(maps.double().mean(dim=0)) @ product
    return sum(product[j] for j in receivers) / len(receivers)


# Information flow routes and FlashTrace


def ifr_rows(V, a, x_attn, x_pre, Wo, receivers):
    """Rows (len(receivers),T) summed over layers, self entry kept; and residual shares (len(receivers),L)."""
    L, T = len(V), len(x_pre[0])
    rows, residual = zeros(len(receivers), T), zeros(len(receivers), L)
    for l in range(L):  # noqa: E741
        F = transformed(V[l], Wo[l])
        weights, after, before = a[l].double(), x_attn[l].double(), x_pre[l].double()
        for r, j in enumerate(receivers):
            P = zeros(T)
            for i in range(j + 1):
                for h in range(len(weights)):
                    P[i] += proximity(weights[h, j, i] * F[i, h], after[j])
            kept = proximity(before[j], after[j])
            Z = kept + P.sum() + EPS
            rows[r] += P / Z
            residual[r, l] = kept / Z
    return rows, residual


def ifr_span(V, a, x_attn, x_pre, Wo, receivers, weights):
    """One row for a weighted set of receivers: states and maps are averaged before proximities are taken."""
    L, T = len(V), len(x_pre[0])
    weights = [float(w) for w in weights]
    weights = [w / sum(weights) for w in weights]
    members = list(zip(receivers, weights, strict=True))
    row = zeros(T)
    for l in range(L):  # noqa: E741
        F = transformed(V[l], Wo[l])
        maps = a[l].double().tolist()
        after = sum(w * x_attn[l][j].double() for j, w in members)
        before = sum(w * x_pre[l][j].double() for j, w in members)
        P = zeros(T)
        for i in range(max(receivers) + 1):
            for h in range(len(maps)):
                mean = sum(w * maps[h][j][i] for j, w in members if j >= i)
                P[i] += proximity(mean * F[i, h], after)
        row += P / (proximity(before, after) + P.sum() + EPS)
    return row


def flashtrace(V, a, x_attn, x_pre, Wo, output, bridge, observed, stop, hops):
    """Credit of observed positions, after `hops` passes through the bridge; and rho_0, rho_1, ..."""
    states = (V, a, x_attn, x_pre, Wo)
    observed = (observed & ~stop).double()

    def through_bridge(t):
        return [0.0 if stop[k] else float(t[k]) for k in bridge]

    sink = [0.0 if stop[j] else 1.0 for j in output]
    if sum(sink) == 0:
        sink = [1.0] * len(output)
    t = ifr_span(*states, output, sink)
    acc = t * observed
    w = through_bridge(t)
    rho = sum(w) / float(t.sum()) if t.sum() > 0 else 0.0
    rhos = [rho]
    for _ in range(hops):
        if sum(w) == 0 or rho == 0:
            break
        t = ifr_span(*states, bridge, w)
        acc = acc + rho * (t * observed)
        w = through_bridge(t)
        rho = rho * (sum(w) / float(t.sum()) if t.sum() > 0 else 0.0)
        rhos.append(rho)
    return acc, rhos


# FlowTracer


def flow_capacity(a, layers):
    """W[i,k]: how much k attends to i < k, mean over the given layers and all heads."""
    T = a[0].shape[-1]
    W = zeros(T, T)
    for k in range(T):
        for i in range(k):
            W[i, k] = sum(a[l][:, k, i].double().mean() for l in layers) / len(layers)  # noqa: E741
    return W


def flowtracer_direct(W, answer):
    """Mean capacity into the answer; zero from its first position on."""
    scores = zeros(len(W))
    for i in range(min(answer)):
        scores[i] = sum(W[i, j] for j in answer) / len(answer)
    return scores


def flowtracer_reach(W, answer):
    """h: what arrives at the answer over all paths of one unit at a position; one on the answer."""
    T = len(W)
    h = zeros(T)
    for i in reversed(range(T)):
        h[i] = 1.0 if i in answer else sum(W[i, k] * h[k] for k in range(i + 1, T))
    return h


def flowtracer_flow(W, answer, inject):
    """One unit, injected evenly where the answer can be reached, walks forward until the answer absorbs it."""
    T = len(W)
    h = flowtracer_reach(W, answer)
    transitions = zeros(T, T)
    for i in range(T):
        if i not in answer and h[i] > 0:
            for k in range(i + 1, T):
                transitions[i, k] = W[i, k] * h[k] / h[i]
    alive = [i for i in inject if h[i] > 0]
    flow, throughput = zeros(T), zeros(T)
    for i in range(T):
        injected = 1 / len(alive) if i in alive else 0.0
        flow[i] = injected + sum(flow[j] * transitions[j, i] for j in range(i))
    for k in range(T):
        throughput[k] = flow[k] + sum(flow[k] * transitions[k, j] for j in range(k + 1, T))
    absorbed = sum(flow[j] for j in answer)
    return {"h": h, "transitions": transitions, "flow": flow, "throughput": throughput, "absorbed": absorbed}


# ALTI


def alti_contributions(V, a, x_attn, x_pre, Wo):
    """C[l][j,i]: heads are summed and the residual joins the diagonal before proximities are taken."""
    L, T = len(V), len(x_pre[0])
    C = []
    for l in range(L):  # noqa: E741
        F = transformed(V[l], Wo[l])
        weights, after, before = a[l].double(), x_attn[l].double(), x_pre[l].double()
        c = zeros(T, T)
        for j in range(T):
            for i in range(j + 1):
                part = weights[:, j, i] @ F[i]
                if i == j:
                    part = part + before[j]
                c[j, i] = proximity(part, after[j])
        C.append(row_normalised(c))
    return C


def alti(C, receivers):
    """Rows of the product over all layers, top layer leftmost; mean over receivers."""
    product = identity(len(C[0]))
    for c in C:
        product = c @ product
    return sum(product[j] for j in receivers) / len(receivers)


def alti_logit(V, a, x_attn, x_pre, Wo, C, readings):
    """What each attention part adds to a logit, spread by the layers below it; plus the reader's own embedding.

    `readings` are pairs of a receiver and the direction g (d) along which its residual stream is read.
    """
    T = len(x_pre[0])
    scores = zeros(T)
    below = identity(T)
    for l in range(len(V)):  # noqa: E741
        F = transformed(V[l], Wo[l])
        for j, g in readings:
            for k in range(j + 1):
                added = sum(a[l][h, j, k].double() * torch.dot(F[k, h], g.double()) for h in range(a[l].shape[0]))
                scores += added * below[k]
        below = C[l] @ below
    for j, g in readings:
        scores[j] += torch.dot(x_pre[0][j].double(), g.double())
    return scores


# Gradients of attention: Chefer et al., GLIMPSE


def chefer(a, grads, receivers):
    """grads[l][h,j,i] = dz/da[l][h,j,i]. Sum over receivers of the rows of R."""
    R = identity(a[0].shape[-1])
    for maps, gradients in zip(a, grads, strict=True):
        A = torch.relu(gradients.double() * maps.double()).mean(dim=0)
        R = R + A @ R
    return sum(R[j] for j in receivers)


def glimpse_row(a, grads, receiver, lam_head, lam_depth):
    """Row of R for one token, from the gradients of its own logit."""
    L, T = len(a), a[0].shape[-1]
    E, depth = [], []
    for l in range(L):  # noqa: E741
        maps, gradients = a[l].double(), grads[l].double()
        H = len(maps)
        G = [torch.relu(gradients[h]) * maps[h] for h in range(H)]
        ratios = []
        for h in range(H):
            positive = float(torch.relu(gradients[h]).sum())
            ratios.append(float(G[h].sum()) / positive if positive > 0 else 0.0)
        heads = [math.exp(ratio / lam_head) for ratio in ratios]
        heads = [weight / sum(heads) for weight in heads]
        E.append(row_normalised(sum(heads[h] * G[h] for h in range(H))))
        size = float(sum(gradients[h] for h in range(H)).abs().sum())
        depth.append(size * math.exp(lam_depth * (l + 1)))
    alpha = [weight / sum(depth) if sum(depth) > 0 else 0.0 for weight in depth]
    R = identity(T)
    for l in range(L):  # noqa: E741
        R = R + (identity(T) + alpha[l] * E[l]) @ R
    return R[receiver]


def glimpse(a, grads_per_token, receivers, image, question, probabilities, lam_head=1.0, lam_depth=0.1):
    """Image relevance weighted by alignment with the prompt and the other way round; zero elsewhere."""
    rows = [
        glimpse_row(a, grads, receiver, lam_head, lam_depth)
        for grads, receiver in zip(grads_per_token, receivers, strict=True)
    ]
    visual_weights, prompt_weights = [], []
    for row, p in zip(rows, probabilities, strict=True):
        prompt_alignment = sum(float(row[i]) for i in question) / len(question)
        visual_alignment = sum(float(row[i]) for i in image) / len(image)
        visual_weights.append(float(p) * prompt_alignment)
        prompt_weights.append(float(p) * visual_alignment)
    visual_total, prompt_total = sum(visual_weights), sum(prompt_weights)
    scores = zeros(a[0].shape[-1])
    for row, visual, prompt in zip(rows, visual_weights, prompt_weights, strict=True):
        for i in image:
            scores[i] += visual / visual_total * row[i] if visual_total > 0 else 0.0
        for i in question:
            scores[i] += prompt / prompt_total * row[i] if prompt_total > 0 else 0.0
    return scores


# CAGE


def cage(W, receivers, generated):
    """W[i,j] from source to receiver. Credit of generated positions is passed on, last one first."""
    rows = row_normalised(W.double().T)
    r = sum(rows[j] for j in receivers)
    for k in sorted(generated, reverse=True):
        r = r + r[k] * rows[k]
        r[k] = 0
    return r


# HETA


def heta_gate(V, a, Wo, receivers, scored):
    """M: every head rolled out by itself and read after every layer, times the L1 norm of its transformed values."""
    L, T, H = len(V), a[0].shape[-1], a[0].shape[0]
    M = zeros(T)
    for h in range(H):
        product = identity(T)
        for l in range(L):  # noqa: E741
            product = half_residual(a[l][h].double()) @ product
            reached = sum(product[q] for q in receivers) / len(receivers)
            for i in scored:
                M[i] += reached[i] * (V[l][i, h].double() @ Wo[l][h].double()).abs().sum()
    return M / M.sum()


def heta_curvature(f, x, scored, signs):
    """S_i: mean over sign vectors (m,T,d) of the L1 norm of the i-th diagonal block of the Hessian times signs[r,i]."""
    H = torch.autograd.functional.hessian(f, x.double())  # T,d,T,d
    S = zeros(len(x))
    for i in scored:
        S[i] = sum((H[i, :, i, :] @ signs[r, i].double()).abs().sum() for r in range(len(signs))) / len(signs)
    return S


def kl(p_logits, q_logits):
    """KL(P||Q) of each row, in nats; never negative."""
    p = p_logits.double().softmax(dim=-1).clamp(min=1e-10)
    q = q_logits.double().softmax(dim=-1).clamp(min=1e-10)
    return (p * (p.log() - q.log())).sum(dim=-1).clamp(min=0)


def ordered_flows(V, a, x_attn, Wo, image, question, start, relative=True):
    """Flow of every position into the predictor of every response token, layers in their order: T,n."""
    T = len(x_attn[0])
    F = torch.zeros(T, T - start, dtype=torch.float64)
    for t in range(T - start):
        F[start - 1 + t, t] = 1
    for l in reversed(range(len(V))):  # noqa: E741
        H = a[l].shape[0]
        writes = torch.stack([V[l][:, h].double() @ Wo[l][h].double() for h in range(H)], dim=1)  # i,h,d
        for modality in (image, question):
            writes[modality] = writes[modality] - writes[modality].mean(0)
        x = own = x_attn[l].double()
        if relative:  # without what residuals of length 1 have in common, at each one's own length
            rest = [j for j in range(T) if j not in image and j not in question]
            unit = torch.stack([x[j] / x[j].norm() for j in range(T)])
            own = unit.clone()
            for alike in (image, question, rest):
                for j in alike:
                    own[j] = (unit[j] - unit[alike].mean(0)) * x[j].norm()
        C = torch.zeros(T, T, dtype=torch.float64)
        for j in range(T):
            for i in range(j):
                shared = (a[l][:, j, i].double()[:, None] * writes[i] * own[j]).sum()
                C[i, j] = torch.relu(shared) / own[j].pow(2).sum()
        F = F + C @ F
    return F


def ordered(F, start, target, columns=False, own=False):
    """Second level: all paths between response tokens, by an explicit inverse. The largest column sum of M is scaled to
    0.9, or every column of F sums to one; the predictor's own stream is taken out, or stays."""
    n = F.shape[1]
    F = F.clone()
    for t in range(n):
        if not own:
            F[start - 1 + t, t] -= 1
        if columns:
            F[:, t] = F[:, t] / F[:, t].sum()
    M = torch.zeros(n, n, dtype=torch.float64)
    for s in range(n):
        for t in range(s + 1, n):
            M[s, t] = F[start + s, t]
    if not columns:
        M = M * 0.9 / M.sum(0).max()
    g = torch.linalg.inv(torch.eye(n, dtype=torch.float64) - M)[:, target].sum(1)
    return F @ g
