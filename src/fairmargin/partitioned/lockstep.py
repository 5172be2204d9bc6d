"""Several solvers that share every pass over the data.

Each solver runs in a thread of its own and is written as if it were alone. Where it asks for an evaluation it waits
until all others that are still running have asked too; then one pass answers all of them. What is asked together does
not depend on timing, so that results do not either.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["Meeting", "current_meeting", "run_in_lockstep"]

T = TypeVar("T")


class Meeting:
    """Where solvers wait for each other."""

    def __init__(self, n_solvers: int) -> None:
        self.n_running = n_solvers
        self._changed = threading.Condition()
        self._asked: dict[int, Sequence[Any]] = {}
        self._answers: dict[int, Any] = {}

    def ask(self, requests: Sequence[Any]) -> Any:
        """Wait for a pass that answers these requests, and return the answers."""
        me = _seat.get()
        with self._changed:
            self._asked[me] = requests
            self._changed.notify_all()
            self._changed.wait_for(lambda: me in self._answers)
            answer = self._answers.pop(me)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self) -> None:
        """Take note that a solver has finished."""
        with self._changed:
            self.n_running -= 1
            self._changed.notify_all()

    def serve(self, evaluate: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """Answer until everybody has left; an error is raised in every solver that waits, and here."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._asked) == self.n_running)
                if not self.n_running:
                    return
                asked, self._asked = sorted(self._asked.items()), {}
            try:
                answers = list(evaluate([request for _, requests in asked for request in requests]))
            except BaseException as error:
                self._answer({seat: error for seat, _ in asked})
                raise
            found = {}
            for seat, requests in asked:
                found[seat], answers = answers[: len(requests)], answers[len(requests) :]
            self._answer(found)
            del answers, found  # may be many rows, which the solvers need no longer than until their next question

    def _answer(self, found: dict[int, Any]) -> None:
        with self._changed:
            self._answers |= found
            self._changed.notify_all()


_meeting: contextvars.ContextVar[Meeting | None] = contextvars.ContextVar("meeting", default=None)
_seat: contextvars.ContextVar[int] = contextvars.ContextVar("seat", default=0)


def current_meeting() -> Meeting | None:
    """Return the meeting that the solver of this thread takes part in, if there is one."""
    return _meeting.get()


def run_in_lockstep(jobs: Sequence[Callable[[], T]], evaluate: Callable[[Sequence[Any]], Sequence[Any]]) -> list[T]:
    """Run all jobs, and ``evaluate`` in this thread whenever all of them wait; return their results in order.

    The first error of a job, in the order of the jobs, is raised after all have ended.
    """
    if len(jobs) == 1 or current_meeting() is not None:  # alone, or within another one's turn
        return [job() for job in jobs]
    meeting = Meeting(len(jobs))
    results: list[Any] = [None] * len(jobs)
    errors: list[BaseException | None] = [None] * len(jobs)

    def work(seat: int) -> None:
        _meeting.set(meeting)
        _seat.set(seat)
        try:
            results[seat] = jobs[seat]()
        except BaseException as error:
            errors[seat] = error
        finally:
            meeting.leave()

    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(work, seat), daemon=True)
        for seat in range(len(jobs))
    ]
    for thread in threads:
        thread.start()
    try:
        meeting.serve(evaluate)
    finally:
        for thread in threads:
            thread.join(timeout=60.0)
    for error in errors:
        if error is not None:
            raise error
    return results
