"""The command line `bundlectl`. Rules: thin, says what failed in one sentence, starts quickly."""
