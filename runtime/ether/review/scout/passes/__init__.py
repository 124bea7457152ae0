"""The three passes of a review: structure, bugs, documentation; each sees every file once."""
