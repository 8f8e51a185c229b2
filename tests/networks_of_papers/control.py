"""Reinforcement learning."""

from __future__ import annotations

import ocannl as oc

from .layers import F, conv, dense, image, t_conv, t_dense
from .network import Input, bits, ids, network, normal
from .twin import torch


def frames(*dims):
    return Input(lambda rng: rng.integers(0, 256, dims).astype("uint8"), 1)


@oc.op
def q_network(x):
    h = oc.relu(conv(x / 255, channels=32, window=8, stride=4))
    h = oc.relu(conv(h, channels=64, window=4, stride=2))
    h = oc.relu(conv(h, channels=64, window=3))
    return dense(oc.relu(dense(h, outputs=512)), outputs=18)


def t_q_network(x, w):
    x = F.relu(t_conv(image(x / 255), w("conv"), stride=4))
    x = F.relu(t_conv(x, w("conv"), stride=2))
    x = F.relu(t_conv(x, w("conv"))).permute(0, 2, 3, 1).flatten(1)
    return t_dense(F.relu(t_dense(x, w("dense"))), w("dense"))


@network(
    seconds=25, learning_rate=0.02, state=frames(32, 84, 84, 4), action=ids(18, 32), reward=normal(32), ended=bits(32),
    following=frames(32, 84, 84, 4),
)  # fmt: skip
def dqn():
    """Q-learning from pixels with a target network (Mnih et al. 2015); errors are clipped to 1."""

    def loss(state, action, reward, ended, following):
        online, target = q_network(label="online"), q_network(label="target")
        with oc.no_grad():
            wanted = reward + 0.99 * (1 - ended) * target(following).max("...|a => ...|")
        error = abs(oc.pick(online(state), action) - wanted)
        return oc.where(error < 1, error**2 / 2, error - 0.5).mean()

    def reference(w, state, action, reward, ended, following):
        state, following = state.to(reward.dtype), following.to(reward.dtype)
        value = t_q_network(state, w("online")).gather(1, action[:, None])[:, 0]
        with torch.no_grad():
            wanted = reward + 0.99 * (1 - ended) * t_q_network(following, w("target")).amax(1)
        return F.smooth_l1_loss(value, wanted)

    return loss, reference
