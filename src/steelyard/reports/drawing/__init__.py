"""Pictures and pages as pure functions: plain values in, HTML and SVG text out; no clock, no network."""
