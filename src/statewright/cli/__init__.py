"""The program: one module for each group of commands; `main` has the commands of the service itself."""
