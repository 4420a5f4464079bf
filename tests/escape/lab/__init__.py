"""The laboratory: canaries outside, probes inside, and a judge who looks only at effects."""
