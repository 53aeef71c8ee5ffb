"""Attribution as a learning signal: weights for the tokens of sampled responses, and data and rewards to train with."""
