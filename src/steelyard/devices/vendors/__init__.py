"""One file for each vendor: its tools' layouts, each a pure parser that takes a line at a time."""
