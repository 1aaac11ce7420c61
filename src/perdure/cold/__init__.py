"""Where archived sessions lie: a folder, or an S3-like store. `perdure.ports.cold` says what each promises."""
