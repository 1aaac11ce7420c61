"""One module per contender, each with one class `Contender` (see `bench.worker.Contender`)."""
