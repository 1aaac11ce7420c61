"""What adapters are made of: translations, views of logs, ranking. The adapters themselves stand one folder up."""
