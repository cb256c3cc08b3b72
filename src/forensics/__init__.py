"""Log and trace forensics for machine-learning training runs."""

__version__ = "0.1.0"
