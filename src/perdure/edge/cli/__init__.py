"""The command line: parse, call the library, show. `app` is the way in, docs/CLI.md the manual."""
