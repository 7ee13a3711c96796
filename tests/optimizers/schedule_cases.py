"""The schedules that are compared with MLX, and the steps at which. Read by the tests and by make_expected.py."""

from __future__ import annotations

STEPS_OF_SCHEDULES = [0, 1, 2, 5, 9, 10, 11, 19, 20, 21, 99, 100, 101, 1000, 10**6]
SCHEDULES = {
    "exponential": lambda optim: optim.exponential_decay(0.1, 0.99),
    "step": lambda optim: optim.step_decay(0.1, 0.5, 10),
    "cosine": lambda optim: optim.cosine_decay(0.1, 100),
    "cosine_end": lambda optim: optim.cosine_decay(0.1, 100, 0.01),
    "linear_up": lambda optim: optim.linear_schedule(0.0, 0.1, 20),
    "linear_down": lambda optim: optim.linear_schedule(0.1, 1e-5, 100),
    "joined": lambda optim: optim.join_schedules(
        [optim.linear_schedule(0, 0.1, 10), optim.cosine_decay(0.1, 90), optim.exponential_decay(0.01, 0.9)], [10, 100]
    ),
}
