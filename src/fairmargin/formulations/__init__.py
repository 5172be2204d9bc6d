"""What each constraint means once there are data: one file per constraint, each registered for its type.

Every module of this package is imported, so that what it registers is known.
"""

from fairmargin.formulations.outcome import Outcome, certify_function, warn_unless_solved
from fairmargin.formulations.task import Task, make_task, run
from fairmargin.named import import_modules

__all__ = ["Outcome", "Task", "certify_function", "make_task", "run", "warn_unless_solved"]

import_modules(__name__, __path__)
