"""Static reading of training code: what a program says that its logs cannot show.

Programs are parsed with `ast` and never imported or executed. docs/sources.md says what is looked for.
"""
