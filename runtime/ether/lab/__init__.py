"""The lab: what measures and breaks a bus. `bench` compares, `torture` kills, `soak` waits.

What each of them is asked for is a `Settings`, what each found is a `Report`, and one renderer draws it.

May import: the layers below.
Used by: `cli.tools`, `lab.bench`, `lab.bench.cases`, `lab.soak`, `lab.torture`, `lab.torture.checker`.
"""
