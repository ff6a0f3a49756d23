"""What the machine offers: bars on a terminal, signals, threads, files."""
