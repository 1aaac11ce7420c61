"""What can be asked over HTTP, one module per part of the vocabulary; each fills a table of endpoints."""
