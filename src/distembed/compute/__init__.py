"""What all stages use: threads, memory, progress, checks of parameters, files that are written whole."""
