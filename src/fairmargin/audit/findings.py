"""What an audit can find about a group, in words."""

from __future__ import annotations

__all__ = [
    "ABOVE",
    "ABOVE_MAYBE",
    "BELOW",
    "BELOW_MAYBE",
    "DIFFERENT",
    "FINDINGS",
    "NOTHING",
    "REFERENCE",
    "REST",
    "TOO_FEW",
    "UNDEFINED",
]

REFERENCE = "reference"
REST = "everybody else"
TOO_FEW = "too few people to say"
UNDEFINED = "both rates are zero"
BELOW = "below the threshold; the rates differ beyond chance"
BELOW_MAYBE = "below the threshold; the rates may differ by chance"
ABOVE = "others are below the threshold; the rates differ beyond chance"
ABOVE_MAYBE = "others are below the threshold; the rates may differ by chance"
DIFFERENT = "above the threshold; the rates differ beyond chance"
NOTHING = "no difference found"
FINDINGS = {
    REFERENCE: "the group that the others are compared with",
    TOO_FEW: "the group, or the people it is compared with, are so few that their rate says little",
    UNDEFINED: "the rates of this group and of those it is compared with are both zero",
    BELOW: "the ratio of rates is below the threshold, and chance alone seldom makes rates so different; whether the "
    "ratio of other people is below it, too, its interval says",
    BELOW_MAYBE: "the ratio of rates is below the threshold, but chance alone may well make such a difference",
    ABOVE: "the others' rate in percent of this group's is below the threshold, and chance alone seldom makes rates "
    "so different",
    ABOVE_MAYBE: "the others' rate in percent of this group's is below the threshold, but chance alone may well make "
    "such a difference",
    DIFFERENT: "the ratio of rates reaches the threshold, yet chance alone seldom makes such a difference",
    NOTHING: "the ratio of rates reaches the threshold, and chance alone may well make such a difference",
}
