"""`perdure demo`: a tour that really happens. Whatever it claims is checked, and a claim that fails ends it with 1."""
