"""The command line: parse, call the library once, show. `perdure.edge.cli.app` is the way in; docs/CLI.md the manual."""
