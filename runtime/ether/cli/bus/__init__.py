"""Commands that run a bus or ask it for something; each module has `add_to(app)`, which gives it its commands.

May import: `cli.common`, `cluster`, `dead_letter`, `runtime`, `text_io`, the floors below.
Used by: `cli`.
"""
