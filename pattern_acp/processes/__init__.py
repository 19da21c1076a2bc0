"""Mechanism: other programs as processes of ours."""
