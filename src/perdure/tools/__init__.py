"""Tools that run here, inside a turn: Python functions and the tools of MCP servers."""
