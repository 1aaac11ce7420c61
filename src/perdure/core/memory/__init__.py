"""What memory decides without a disk, a clock or a model: words, dates, scores."""
