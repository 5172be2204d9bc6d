"""Profiles: dated, sourced sets of thresholds and tables that a rule or a practice asks for, kept as data.

A profile is a TOML file beside this module: what it is called, of which date, on what it rests, which settings of an
audit it takes, which tables it asks for, and what it leaves out. It describes tables; it judges nobody.
"""

from __future__ import annotations

from fairmargin.audit.profiles.profile import Profile, apply_profile, get_profile, profile_names

__all__ = ["Profile", "apply_profile", "get_profile", "profile_names"]
