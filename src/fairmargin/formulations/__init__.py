"""What each constraint means once there are data: one file a constraint, each registered for its type."""

from fairmargin.formulations import covariance as covariance
from fairmargin.formulations import individual as individual
from fairmargin.formulations import loss as loss
from fairmargin.formulations import prule as prule
from fairmargin.formulations.task import Outcome, Task, make_task, run

__all__ = ["Outcome", "Task", "make_task", "run"]
