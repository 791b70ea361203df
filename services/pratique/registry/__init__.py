"""What an API server's registry makes of an object: strict decoding, defaults, strategies, validation."""
