"""The cases of `ether bench`: what is measured, and beside what.

May import: `lab`, `lab.bench`, `lab.harness`, the layers below.
Used by: `lab.bench`.
"""
