"""`python -m perdure` and the `perdure` script."""


def main() -> None:
    """Run the command line and exit."""
    from perdure.edge.cli.app import perdure

    perdure.main()


if __name__ == "__main__":
    main()
