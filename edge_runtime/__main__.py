"""`python -m edge_runtime`."""

from edge_runtime.cli import main

if __name__ == "__main__":
    main()
