"""The roles: what each process of a benchmark does."""
