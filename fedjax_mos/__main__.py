"""`python -m fedjax_mos`: the command line."""

from fedjax_mos.cli import main

if __name__ == "__main__":
    main()
