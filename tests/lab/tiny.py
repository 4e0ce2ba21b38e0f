"""The smallest experiment that most tests of the lab share."""

import fedjax_mos as fm

TINY = fm.Experiment(
    algorithm="fedavg",
    sampler="ucs",
    clients=6,
    cohort=2,
    rounds=2,
    steps=1,
    batch_size=4,
    model="logistic",
)
