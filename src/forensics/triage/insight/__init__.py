"""What shows only over many jobs: unknown failures that are alike, what a cause goes with, failing hardware."""
