"""``python -m reproduce``, in a copy of the repository."""

from distembed.cli import run_program

if __name__ == "__main__":
    run_program("python -m reproduce", "reproduce.app")
