"""What each constraint means once there are data: one file per constraint, each registered for its type."""

from fairmargin.formulations import covariance as covariance
from fairmargin.formulations import individual as individual
from fairmargin.formulations import loss as loss
from fairmargin.formulations import penalty as penalty
from fairmargin.formulations import performance as performance
from fairmargin.formulations import prule as prule
from fairmargin.formulations import several as several
from fairmargin.formulations.outcome import Outcome, certify_function, warn_unless_solved
from fairmargin.formulations.task import Task, make_task, run

__all__ = ["Outcome", "Task", "certify_function", "make_task", "run", "warn_unless_solved"]
