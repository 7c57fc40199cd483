"""What templates may see: frozen structs, and how times, numbers and names are written. Pure."""
