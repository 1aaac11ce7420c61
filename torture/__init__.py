"""Crashes, faults and lost acknowledgements on purpose: `python -m torture`, or `make torture`.

Real processes write to one store; they are killed at random moments, just before chosen system calls and while they
open the file again; disks fail under them. After every blow a fresh process proves that nothing acknowledged is lost,
doubled, reordered or changed. The schedule comes from a seed that is printed first and can be given again.
"""
