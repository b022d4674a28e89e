"""The bundle-state channel's transition tables and conflict rule; pure."""
