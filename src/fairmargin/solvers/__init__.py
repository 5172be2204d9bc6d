"""Solvers: functions from a frozen problem to a solution."""
