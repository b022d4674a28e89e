"""The frozen picture that strategies decide on, and what is computed for it."""
