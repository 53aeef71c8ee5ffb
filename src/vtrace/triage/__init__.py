"""A whole benchmark explained: one viewer file per question, and a page that says which ones to look at first."""
