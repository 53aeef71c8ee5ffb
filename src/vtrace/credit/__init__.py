"""Token credit: attribution as a learning signal for reinforcement learning."""
