"""perdure behind the interfaces of agent frameworks: one module each, needing its framework alone, by public names."""
