"""Names and hash arithmetic of bundles; pure, imports nothing of the project."""
