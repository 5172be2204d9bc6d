"""Waiting for what another process does, for as long as a slow and busy machine may take."""

import time


def until(condition, seconds=300):
    """Return once the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
