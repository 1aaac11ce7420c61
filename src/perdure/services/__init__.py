"""Use cases: load, let the core decide, append. A service holds no rule of the domain."""
