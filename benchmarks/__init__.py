"""Workloads, each with its baseline in the same run."""
