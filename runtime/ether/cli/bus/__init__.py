"""The commands of `ether`; each module has `add_to(app)`, which gives it its commands."""
