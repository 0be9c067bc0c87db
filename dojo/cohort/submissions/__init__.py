"""What was handed in, in whatever way a class hands in."""

from dojo.cohort.submissions.collection import collect

__all__ = ["collect"]
